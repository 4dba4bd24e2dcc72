package receipt

import (
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"io"
	"strings"
	"sync"
	"unicode/utf8"

	"agentjail.dev/runtime/kernel/printable"
)

// Widths of the text, in characters: of a line, and of what is padded in a column.
const (
	maxLine   = 600
	maxColumn = 40
)

// Text writes the receipt for a terminal, without its events.
func (r *Receipt) Text(w io.Writer) error {
	lines := []string{r.title() + ": " + r.verdict()}
	for _, part := range r.parts() {
		lines = append(append(lines, part.Title), textOf(part.Rows)...)
		if part.Remedy != "" {
			lines = append(lines, "  "+part.Remedy)
		}
	}
	var b strings.Builder
	for _, l := range lines {
		b.WriteString(printable.Line(l, maxLine) + "\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// textOf returns rows as lines, their columns below each other and each row's notes below it.
func textOf(rows []row) (out []string) {
	var widths []int
	for _, r := range rows {
		for i, c := range r.Cells {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], min(utf8.RuneCountInString(c), maxColumn))
		}
	}
	for _, r := range rows {
		text := ""
		for i, c := range r.Cells {
			if i == len(r.Cells)-1 {
				text += "  " + c
				continue
			}
			text += fmt.Sprintf("  %-*s", widths[i], c)
		}
		out = append(out, text)
		for _, n := range r.Notes {
			out = append(out, "      "+n)
		}
	}
	return out
}

// style is the page's, which its policy knows by its hash.
const style = `:root{color-scheme:light dark}
body{max-width:64rem;margin:2rem auto;padding:0 1rem;font:15px/1.5 system-ui,sans-serif}
h1{font-size:1.3rem}
h2{font-size:1rem;margin:1.5rem 0 .3rem}
table{border-collapse:collapse;font:13px/1.5 ui-monospace,monospace}
td{vertical-align:top;padding:.15rem 1rem .15rem 0;border-bottom:1px solid #8884}
bdi{unicode-bidi:isolate;overflow-wrap:anywhere}
.loud{color:#c0262d}
`

//go:embed page.html
var page string

// parsed is the page, made when it is first requested.
var parsed = sync.OnceValue(func() *template.Template {
	return template.Must(template.New("receipt").Funcs(template.FuncMap{"line": printable.Line}).Parse(page))
})

// HTML writes the receipt, with its events, as one page that loads nothing and runs nothing: its
// content security policy forbids both.
func (r *Receipt) HTML(w io.Writer) error {
	sum := sha256.Sum256([]byte(style))
	err := parsed().Execute(w, map[string]any{
		"ID": r.Identity.ID, "Title": r.title(), "Verdict": r.verdict(), "Parts": append(r.parts(), r.timeline()),
		"Style": template.CSS(style), "StyleHash": "sha256-" + base64.StdEncoding.EncodeToString(sum[:]),
	})
	if err != nil {
		return fmt.Errorf("writing the page: %w", err)
	}
	return nil
}
