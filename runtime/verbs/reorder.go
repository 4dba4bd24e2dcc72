package verbs

import (
	"slices"
	"strings"
)

// Reorder puts a verb's options before its other arguments, as runc takes them
// in any order ("update ID --memory 1G"). Arguments after "--", those of verbs
// whose own are somebody else's, and unknown options stay where they are. argv
// has the program's name.
func Reorder(argv []string) []string {
	at := 1
	for at < len(argv) && strings.HasPrefix(argv[at], "-") {
		at += width(argv[at:], Global())
	}
	if at >= len(argv) {
		return argv
	}
	all := Verbs()
	i := slices.IndexFunc(all, func(v Verb) bool { return v.Name == argv[at] })
	if i < 0 || all[i].Raw || all[i].Foreign {
		return argv
	}
	var options, rest []string
	for n := at + 1; n < len(argv); {
		if argv[n] == "--" {
			rest = append(rest, argv[n:]...)
			break
		}
		w := 1
		if known(argv[n], all[i].Flags) {
			w = width(argv[n:], all[i].Flags)
			options = append(options, argv[n:n+w]...)
		} else {
			rest = append(rest, argv[n])
		}
		n += w
	}
	return slices.Concat(argv[:at+1], options, rest)
}

// named is the option that an argument names.
func named(arg string, flags []Flag) *Flag {
	if !strings.HasPrefix(arg, "-") {
		return nil
	}
	name, _, _ := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(arg, "-"), "-"), "=")
	i := slices.IndexFunc(flags, func(f Flag) bool { return name != "" && (name == f.Name || name == f.Short) })
	if i < 0 {
		return nil
	}
	return &flags[i]
}

func known(arg string, flags []Flag) bool { return named(arg, flags) != nil }

// width is how many arguments an option takes, with its value.
func width(args []string, flags []Flag) int {
	f := named(args[0], flags)
	if f == nil || f.Kind == Switch || strings.Contains(args[0], "=") || len(args) == 1 {
		return 1
	}
	return 2
}
