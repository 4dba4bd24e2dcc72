package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/urfave/cli/v2"

	"agentjail.dev/runtime/kernel/printable"
)

// jsonFlag is the flag of every command with output for programs.
var jsonFlag = &cli.BoolFlag{Name: "json", Usage: "print JSON"}

// formVersion is that of all forms: it changes where a field is removed or changes its meaning.
const formVersion = "/1"

// Names of forms that are not of a command alone.
const (
	eventForm        = "agentjail.event" + formVersion
	networkEventForm = "agentjail.network.event" + formVersion
	waitingForm      = "agentjail.network.waiting" + formVersion
	verifiedForm     = "agentjail.journal.verified" + formVersion
)

// printJSON prints an object as JSON. Its first field, schema, names the form: the command's words.
func printJSON(c *cli.Context, v any) error {
	return printForm(c.App.Writer, strings.Join(strings.Fields(c.Command.HelpName), ".")+formVersion, v)
}

// printResult prints a result as JSON where the call requests that, else as text.
func printResult(c *cli.Context, v any, text func(io.Writer) error) error {
	if c.Bool("json") {
		return printJSON(c, v)
	}
	return text(c.App.Writer)
}

// printForm prints an object of this form.
func printForm(w io.Writer, form string, v any) error {
	text, err := encoded(form, v)
	if err != nil {
		return err
	}
	var b bytes.Buffer
	if err := json.Indent(&b, text, "", "  "); err != nil {
		return err
	}
	b.WriteByte('\n')
	_, err = w.Write(b.Bytes())
	return err
}

// encoded returns an object as JSON in one line, and adds the name of its form if it has none.
// Names in it may be a jail's.
func encoded(form string, v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	text := printable.JSON(bytes.TrimSpace(b.Bytes()))
	rest, isObject := bytes.CutPrefix(text, []byte("{"))
	switch {
	case !isObject:
		return nil, fmt.Errorf("%s: %.20s is no JSON object", form, text)
	case bytes.HasPrefix(rest, []byte(`"schema":`)):
		return text, nil
	case !bytes.Equal(rest, []byte("}")):
		rest = append([]byte(","), rest...)
	}
	return append(fmt.Appendf(nil, `{"schema":%q`, form), rest...), nil
}
