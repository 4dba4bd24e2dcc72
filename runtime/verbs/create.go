package verbs

import "agentjail.dev/runtime/jail"

func create(name, usage string, run bool) Verb {
	flags := []Flag{
		{Name: "bundle", Short: "b", Default: ".", Usage: "path of the OCI bundle"},
		{Name: "console-socket", Usage: "unix socket that receives the terminal"},
		{Name: "pidfd-socket", Usage: "unix socket that receives a pidfd of the first process"},
		{Name: "pid-file", Usage: "write the first process's id to `FILE`"},
		{Name: "no-pivot", Kind: Switch, Usage: "not granted: leaves the host's root mounted"},
		{Name: "no-new-keyring", Kind: Switch, Usage: "not granted: shares the caller's keys"},
		{Name: "preserve-fds", Usage: "not granted: hands the host's files in"},
	}
	if run {
		flags = append(flags,
			Flag{Name: "detach", Short: "d", Kind: Switch, Usage: "do not wait for its end"},
			Flag{Name: "keep", Kind: Switch, Usage: "not granted: a jail that ended is deleted"},
			Flag{Name: "no-subreaper", Kind: Switch, Usage: "ignored"},
		)
	}
	return Verb{Name: name, Usage: usage, Args: "CONTAINER", Flags: flags, Run: func(c *Call) error {
		id, err := c.ID()
		if err != nil {
			return err
		}
		w, err := c.Runtime()
		if err != nil {
			return err
		}
		c.notGranted("", "no-pivot", "no-new-keyring", "preserve-fds", "keep")
		at, err := c.paths("bundle", "pid-file", "console-socket", "pidfd-socket")
		if err != nil {
			return err
		}
		return w.Create(c.Ctx, jail.CreateOptions{
			ID: id, Bundle: at["bundle"], Run: run, Detach: c.Bool("detach"),
			PidFile: at["pid-file"], ConsoleSocket: at["console-socket"], PidfdSocket: at["pidfd-socket"],
		})
	}}
}
