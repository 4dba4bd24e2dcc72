package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"agentjail.dev/runtime/facts/project"
	"agentjail.dev/runtime/kernel/invoker"
	"agentjail.dev/runtime/kernel/printable"
	"agentjail.dev/runtime/spec/policy"
)

func policyCommand() *cli.Command {
	config := &cli.StringFlag{Name: "config", Usage: "policy `FILE` (default: that of the call, " + policy.DefaultPath + ")"}
	return &cli.Command{
		Name: "policy", Usage: "check a policy file, and show what is in force",
		Subcommands: []*cli.Command{{
			Name: "validate", Usage: "check a policy file with all its named policies", ArgsUsage: "[FILE]",
			Description: `Lists each mistake with its file, line, key and remedy: keys that do not exist,
values of another type or out of bounds, files that are named and cannot be read.
Named policies of policies.d, beside FILE, are checked too. A credential whose hosts
no policy allows is a warning. Runs nothing.

Exit status 0 if jails can start by every policy, 1 if by some not, 2 for a wrong
command line, 125 if FILE cannot be read.`,
			Flags:  []cli.Flag{jsonFlag},
			Action: validatePolicy,
		}, {
			Name: "show", Usage: "show the value of each key, and where it is from",
			Description: `Prints every key with its value, as a policy file has it, and the value's place: the
default, a line of a file, or a built-in policy. Values of keys are not secret; the
values of credentials are not read.

Exit status 0, 1 if no such policy exists or it has mistakes, 2 for a wrong command
line, 125 if the file cannot be read.`,
			Flags: []cli.Flag{
				&cli.StringFlag{Name: "policy", Usage: "the named policy `NAME`"}, config,
				&cli.StringFlag{Name: "workspace", Usage: "narrowed by the " + policy.ProjectFile + " of `DIR`, as for a sandbox there"},
				&cli.StringSliceFlag{Name: "tighten", Usage: "as with a container's annotation `KEY=VALUE`"},
				jsonFlag,
			},
			Action: showPolicy,
		}, {
			Name: "schema", Usage: "print the JSON Schema of policy files, for editors",
			Description: "Prints a JSON Schema (2020-12) of the TOML file: each key with its type, values, default\nand explanation.",
			Action:      printSchema,
		}},
	}
}

// printSchema prints the JSON Schema, which is a form of its own.
func printSchema(c *cli.Context) error {
	enc := json.NewEncoder(c.App.Writer)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(policy.Schema())
}

// policyFile returns the absolute path of the policy file that a call is about.
func policyFile(named string) (string, error) {
	path, err := filepath.Abs(cmp.Or(named, caller.Config()))
	if err == nil {
		err = invoker.MayRead(path)
	}
	if errors.Is(err, fs.ErrNotExist) && named == "" { // the defaults are in force
		err = nil
	}
	return path, err
}

func validatePolicy(c *cli.Context) error {
	path, err := policyFile(c.Args().First())
	if err != nil {
		return err
	}
	problems, err := policy.Examine(path)
	if err != nil {
		return err
	}
	mistakes := 0
	for _, p := range problems {
		if !p.Warning {
			mistakes++
		}
	}
	err = printResult(c, struct {
		File     string          `json:"file"`
		Valid    bool            `json:"valid"`
		Problems policy.Problems `json:"problems"`
	}{path, mistakes == 0, append(policy.Problems{}, problems...)}, func(w io.Writer) error {
		return writeProblems(w, path, problems, mistakes)
	})
	return answered(err, mistakes == 0)
}

func writeProblems(w io.Writer, path string, problems policy.Problems, mistakes int) error {
	for _, p := range problems {
		kind := ""
		if p.Warning {
			kind = "warning: "
		}
		fmt.Fprintln(w, printable.Line(kind+p.String(), 0))
	}
	verdict := path + " is valid"
	if mistakes > 0 {
		verdict = fmt.Sprintf("%s has %s", path, printable.Count(mistakes, "mistake"))
	}
	_, err := fmt.Fprintln(w, verdict)
	return err
}

func showPolicy(c *cli.Context) error {
	path, err := policyFile(c.String("config"))
	if err != nil {
		return err
	}
	e, err := policy.Explain(path, cmp.Or(c.String("policy"), caller.PolicyName))
	if _, mistakes := errors.AsType[policy.Problems](err); mistakes || errors.Is(err, policy.ErrNoPolicy) {
		return asAnswer(err)
	} else if err != nil {
		return err
	}
	if err := showProject(e, c.String("workspace")); err != nil {
		return err
	}
	tighten, err := tightened(c.StringSlice("tighten"))
	if err != nil {
		return asUsage(err)
	}
	p, ignored := e.Tighten(tighten)
	if len(ignored) > 0 {
		return asAnswer(notFollowed(ignored))
	}
	e.Change("--tighten", p)
	if c.Bool("json") {
		return printJSON(c, struct {
			File   string         `json:"file"`
			Policy string         `json:"policy,omitempty"`
			Values []policy.Value `json:"values"`
		}{path, c.String("policy"), e.Values()})
	}
	for _, v := range e.Values() {
		if _, err := fmt.Fprintln(c.App.Writer, printable.Line(fmt.Sprintf("%s = %s # %s", v.Key, v.Text, v.From), 0)); err != nil {
			return err
		}
	}
	return nil
}

// showProject narrows a policy by the file of a directory that is worked in; "" is none.
func showProject(e *policy.Effective, dir string) error {
	if dir == "" {
		return nil
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	p, err := project.Narrow(e.Policy, dir)
	if _, mistakes := errors.AsType[policy.Problems](err); mistakes {
		return asAnswer(err)
	} else if err != nil {
		return err
	}
	e.Change(filepath.Join(dir, policy.ProjectFile), p)
	return nil
}

// notFollowed is the error of values of --tighten that policy does not follow. As annotations of
// a container they would be reported; the caller of a command sees no report.
func notFollowed(ignored []policy.Ignored) error {
	var all []string
	for _, i := range ignored {
		all = append(all, fmt.Sprintf("--tighten %s=%s: %s", strings.TrimPrefix(i.Name, policy.AnnotationPrefix), i.Value, i.Why))
	}
	return errors.New(strings.Join(all, "; ") + " (remedy: `agentjail policy show` prints the policy's values)")
}

// followProjects has the files of workspaces count that have one (policy.ProjectFile).
func followProjects(annotations map[string]string, workspaces []string) {
	var places []string
	for _, w := range workspaces {
		if _, err := os.Lstat(filepath.Join(w, policy.ProjectFile)); err == nil && !slices.Contains(places, w) {
			places = append(places, w)
		}
	}
	if len(places) > 0 {
		annotations[policy.AnnotationPrefix+policy.ProjectAnnotation] = strings.Join(places, ":")
	}
}
