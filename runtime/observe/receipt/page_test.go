package receipt

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode"

	"golang.org/x/net/html"
)

// page parses a receipt's page.
func pageOf(t testing.TB, r *Receipt) (string, *html.Node) {
	t.Helper()
	var b bytes.Buffer
	if err := r.HTML(&b); err != nil {
		t.Fatal(err)
	}
	doc, err := html.Parse(bytes.NewReader(b.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	return b.String(), doc
}

func each(n *html.Node, do func(*html.Node)) {
	do(n)
	for c := n.FirstChild; c != nil; c = c.NextSibling {
		each(c, do)
	}
}

// tags and attributes are all that a page has, whatever a jail does.
var (
	tags       = strings.Fields("html head meta title style body section p h1 h2 br bdi table tbody tr td details summary")
	attributes = strings.Fields("lang charset http-equiv content name class id")
)

// checkPage reports what of a page should not be there.
func checkPage(t testing.TB, doc *html.Node) {
	t.Helper()
	each(doc, func(n *html.Node) {
		switch n.Type {
		case html.ElementNode:
			if !slices.Contains(tags, n.Data) {
				t.Errorf("the page has an element <%s>", n.Data)
			}
			for _, a := range n.Attr {
				if !slices.Contains(attributes, strings.ToLower(a.Key)) {
					t.Errorf("<%s> has an attribute %s", n.Data, a.Key)
				}
			}
		case html.CommentNode:
			t.Errorf("the page has a comment: %q", n.Data)
		case html.TextNode:
			if i := strings.IndexFunc(n.Data, func(r rune) bool { return r != '\n' && !unicode.IsPrint(r) }); i >= 0 {
				t.Errorf("the page has %q in %q", n.Data[i:], n.Data)
			}
		}
	})
}

// TestPageHasItsStyle: the policy of the page names the style by its hash, so that not a byte of it may be changed by the renderer, and
// allows nothing else.
func TestPageHasItsStyle(t *testing.T) {
	text, doc := pageOf(t, new(Receipt))
	if !strings.Contains(text, "<style>"+style+"</style>") {
		t.Error("the style on the page is not the one that was hashed")
	}
	sum := sha256.Sum256([]byte(style))
	want := "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'; base-uri 'none'; form-action 'none'"
	found := false
	each(doc, func(n *html.Node) {
		if n.Data == "meta" && len(n.Attr) == 2 && n.Attr[0].Val == "Content-Security-Policy" {
			found = n.Attr[1].Val == want && n.Parent.Data == "head"
		}
	})
	if !found {
		t.Errorf("the page has no policy of %q", want)
	}
	if strings.Contains(style, "url(") || strings.Contains(style, "@import") {
		t.Error("the style loads something")
	}
}

// attacks are what a jail could try to put on a page.
var attacks = []string{
	`<script>alert(1)</script>`, `"><img src=x onerror=alert(1)>`, `'-alert(1)-'`, `</style><script>1</script>`, `</title><svg onload=alert(1)>`,
	"javascript:alert(1)", "\u202egnp.exe\u202c", "\u2066a\u2069", "a\x00b\x1b[2Jc\r\n", "&lt;script&gt;", "<!--", "]]>", "{{.}}", "\xff\xfe", "<bdi dir=rtl>", strings.Repeat("<", 5000),
}

// TestPageEscapes: whatever is in a receipt, the page has the same elements, and its text no control or direction marks.
func TestPageEscapes(t *testing.T) {
	for _, a := range attacks {
		r := filled(func(string) string { return a })
		text, doc := pageOf(t, r)
		checkPage(t, doc)
		if a == attacks[0] && !strings.Contains(text, "&lt;script&gt;alert(1)&lt;/script&gt;") {
			t.Error("what a jail wrote is not shown")
		}
		var b bytes.Buffer
		if err := r.Text(&b); err != nil {
			t.Fatal(err)
		}
		if i := strings.IndexFunc(b.String(), func(r rune) bool { return r != '\n' && !unicode.IsPrint(r) }); i >= 0 {
			t.Errorf("the text has %q", b.String()[i:])
		}
	}
}

// filled is a receipt with this text wherever there is one.
func filled(text func(path string) string) *Receipt {
	r := new(Receipt)
	fill(reflect.ValueOf(r).Elem(), "", text)
	r.State = Ended
	r.Began, r.Made = time.Unix(1700000000, 0), time.Unix(1700000100, 0)
	r.Ended = time.Unix(1700000090, 0)
	return r
}

func fill(v reflect.Value, path string, text func(path string) string) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(text(path))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(7)
	case reflect.Uint64:
		v.SetUint(7)
	case reflect.Float64:
		v.SetFloat(7)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), path, text)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 3, 3))
		for i := range 3 {
			fill(v.Index(i), path+"["+strconv.Itoa(i)+"]", text)
		}
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			v.Set(reflect.ValueOf(time.Unix(1700000050, 0)))
			return
		}
		for i := range v.NumField() {
			fill(v.Field(i), path+"."+v.Type().Field(i).Name, text)
		}
	}
}

// TestEveryFieldIsShown: what is in a receipt is on the page and in the text, so that a reader sees it without the JSON.
func TestEveryFieldIsShown(t *testing.T) {
	words := map[string]string{}
	r := filled(func(path string) string {
		words[path] = fmt.Sprintf("word%dx", len(words))
		return words[path]
	})
	r.Exit.Status, r.Exit.Engine = nil, nil
	page, _ := pageOf(t, r)
	var b bytes.Buffer
	if err := r.Text(&b); err != nil {
		t.Fatal(err)
	}
	for path, word := range words {
		if path == ".Schema" || path == ".State" {
			continue // of the form, and shown in words
		}
		if !strings.Contains(page, word) {
			t.Errorf("%s is not on the page", path)
		}
		if !strings.Contains(b.String(), word) && !strings.HasPrefix(path, ".Events[") { // `agentjail journal` prints them
			t.Errorf("%s is not in the text", path)
		}
	}
}

// FuzzPage: no text gets out of its place.
func FuzzPage(f *testing.F) {
	for _, a := range attacks {
		f.Add(a, uint64(1))
	}
	f.Fuzz(func(t *testing.T, text string, seed uint64) {
		rng := rand.New(rand.NewPCG(seed, 1))
		r := filled(func(string) string {
			if text == "" {
				return ""
			}
			from := rng.IntN(len(text))
			return text[from : from+rng.IntN(len(text)-from+1)]
		})
		_, doc := pageOf(t, r)
		checkPage(t, doc)
	})
}
