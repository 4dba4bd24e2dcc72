package runccli

import "agentjail.dev/runtime/lifecycle"

const createHelp = "CONTAINER is an id of up to 1024 letters, digits and \"_+-.\", not in use. The bundle is\n" +
	"rewritten by the policy and executed by the delegate; the bundle's own files stay as they\n" +
	"are. Denials are logged, and kept in the report of the jail; `agentjail explain`\n" +
	"shows them beforehand. A bundle that is refused leaves nothing behind, and exits with 1."

func create(name, usage string, run bool) Verb {
	flags := []Flag{
		{Name: "bundle", Short: "b", Default: ".", Usage: "`DIRECTORY` of the OCI bundle, with config.json"},
		{Name: "console-socket", Usage: "`SOCKET` (AF_UNIX) that receives the terminal's descriptor; needs process.terminal"},
		{Name: "pidfd-socket", Usage: "`SOCKET` (AF_UNIX) that receives a pidfd of the first process"},
		{Name: "pid-file", Usage: "write the first process's id to `FILE`"},
		{Name: "no-pivot", Kind: Switch, Usage: "denied: leaves the host's root mounted"},
		{Name: "no-new-keyring", Kind: Switch, Usage: "denied: shares the caller's keys"},
		{Name: "preserve-fds", Usage: "denied: passes `N` descriptors of the host into the jail"},
	}
	if run {
		flags = append(flags,
			Flag{Name: "detach", Short: "d", Kind: Switch, Usage: "return once it runs, without waiting for its end"},
			Flag{Name: "keep", Kind: Switch, Usage: "denied: a jail that has ended is deleted"},
			Flag{Name: "no-subreaper", Kind: Switch, Usage: "accepted and ignored"},
		)
	}
	return Verb{Name: name, Usage: usage, Args: "CONTAINER", Description: createHelp, Flags: flags, Run: func(c *Call) error {
		r, err := c.Runtime()
		if err != nil {
			return err
		}
		at, err := c.paths("bundle", "pid-file", "console-socket", "pidfd-socket")
		if err != nil {
			return err
		}
		return r.Create(c.Ctx, lifecycle.CreateOptions{
			ID: c.Args[0], Bundle: at["bundle"], Run: run, Detach: c.Bool("detach"),
			Denied:  c.denied("no-pivot", "no-new-keyring", "preserve-fds", "keep"),
			PidFile: at["pid-file"], ConsoleSocket: at["console-socket"], PidfdSocket: at["pidfd-socket"],
		})
	}}
}
