package main

import (
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"github.com/rein-run/rein/watch"
)

// newParser reads a command line into c. quit is called with the exit code when
// help or the version was printed.
func (a *app) newParser(c *cli, quit func(int)) (*kong.Kong, error) {
	return kong.New(c,
		kong.Name("rein"),
		kong.Description("Rein runs coding-agent CLIs unattended: it keeps every byte, stops on a deadline or a budget, proves that nothing is left running, and reports."),
		kong.UsageOnError(),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, WrapUpperBound: 100}),
		kong.Writers(a.stdout, a.stderr),
		kong.Exit(quit),
		kong.Vars{"version": version()},
	)
}

// parse reads args. A negative number is taken for a value: kong 1.17.0 sees a
// flag in it, and "--retries -1" deserves to hear what a number of retries is.
func (a *app) parse(c *cli, args []string, quit func(int)) (*kong.Context, error) {
	for {
		*c = cli{}
		parser, err := a.newParser(c, quit)
		if err != nil {
			return nil, err
		}
		kctx, err := parser.Parse(args)
		if err == nil {
			return kctx, emptyFlag(kctx)
		}
		joined := join(args, err)
		if joined == nil {
			return nil, err
		}
		args = joined
	}
}

var (
	flagForValue = regexp.MustCompile(`^(--[\w-]+): expected .* but got "(-.*)" \((?:short|long) flag\); perhaps try `)
	negative     = regexp.MustCompile(`^-[0-9.]`)
	negativeTime = regexp.MustCompile(`^-[0-9][0-9.a-z]*$`)
)

// join writes a negative number so that it cannot be taken for a flag; nil when
// that is not what is wrong. It ends: each time there is one argument less to
// see a flag in.
func join(args []string, err error) []string {
	if m := flagForValue.FindStringSubmatch(oneLine(err)); m != nil && negative.MatchString(m[2]) {
		for i := 1; i < len(args); i++ {
			if args[i] == m[2] && strings.HasPrefix(args[i-1], "-") {
				return slices.Replace(slices.Clone(args), i-1, i+1, m[1]+"="+m[2])
			}
		}
	}
	// rein runs extend ID -5m
	if i := len(args) - 1; i > 0 && slices.Contains(args[:i], "extend") && args[i-1] != "--" && negativeTime.MatchString(args[i]) && strings.HasPrefix(oneLine(err), "unknown flag "+args[i][:2]) {
		return slices.Insert(slices.Clone(args), i, "--")
	}
	return nil
}

// emptyFlag refuses a flag whose value is empty. It is the trace of a variable
// that a script has not set, and `--max-cost "$BUDGET"` must not mean no budget.
func emptyFlag(kctx *kong.Context) error {
	for _, p := range kctx.Path {
		if p.Flag == nil || p.Resolved {
			continue
		}
		v := reflect.ValueOf(kctx.FlagValue(p.Flag))
		if v.Kind() == reflect.String && v.String() == "" {
			return usage("--%s is empty: give a value, or leave the flag out to have the default", p.Flag.Name)
		}
	}
	return nil
}

// typed is an error of the parser as a sentence.
func typed(err error) string {
	s := oneLine(err)
	if what, ok := strings.CutPrefix(s, "expected "); ok {
		return strings.ReplaceAll(what, `"`, "") + " is missing"
	}
	if m := flagForValue.FindStringSubmatch(s); m != nil {
		return fmt.Sprintf("%s needs a value, and %s is a flag: if it is meant, write %s=%s", m[1], m[2], m[1], m[2])
	}
	if m := noChoice.FindStringSubmatch(s); m != nil {
		return fmt.Sprintf("%s: there is no %s: choose one of %s", m[1], m[3], strings.NewReplacer(`"`, "", ",", ", ").Replace(m[2]))
	}
	for _, r := range rewrites {
		s = r.what.ReplaceAllString(s, r.with)
	}
	return s
}

var (
	noChoice = regexp.MustCompile(`^(\S+) must be one of (\S+) but got ("[^"]*")$`)
	rewrites = []struct {
		what *regexp.Regexp
		with string
	}{
		{regexp.MustCompile(`^(\S+): expected .* value but got "EOL" .*$`), "$1 needs a value"},
		{regexp.MustCompile(`^(\S+): expected (?:a valid \d+ bit int|float value|a float) but got ("[^"]*").*$`), "$1: $2 is not a number"},
		{regexp.MustCompile(`^(\S+): bool value must be .* but got ("[^"]*")$`), "$1 is on or off and takes no value: $2"},
		// Of one letter each, they are all that there are.
		{regexp.MustCompile(`^(unknown flag -[^-]?), did you mean (?:one of )?"-.".*$`), "$1"},
	}
)

// dashed is the hint for a prompt that was taken for a flag, "" for none.
func dashed(err error, args []string) string {
	flag, ok := strings.CutPrefix(oneLine(err), "unknown flag ")
	flag, _, _ = strings.Cut(flag, ",")
	if !ok || len(args) == 0 || args[0] != "run" {
		return ""
	}
	if i := slices.IndexFunc(args, func(s string) bool { return strings.HasPrefix(s, flag) && strings.ContainsAny(s, " \t\n") }); i < 0 {
		return ""
	}
	return `A prompt that begins with a dash stands after --: rein run -- "- what to do"`
}

// askHelp makes --help of what else people type for it. A prompt and a command
// are left as they are.
func askHelp(args []string) []string {
	switch {
	case len(args) == 0:
		return []string{"--help"}
	case args[0] == "help":
		return append(slices.Clone(args[1:]), "--help")
	case len(args) == 2 && args[1] == "help" && slices.Contains([]string{"runs", "agents", "reap"}, args[0]):
		return []string{args[0], "--help"}
	}
	return args
}

// span is a time as the clocks are written, from the command line.
type span time.Duration

// UnmarshalText reads 90s, 5m or 1h30m.
func (d *span) UnmarshalText(b []byte) error {
	v, err := watch.Parse(string(b))
	if err != nil || v <= 0 {
		return fmt.Errorf("%q is not a time: write 90s, 5m or 1h30m", b)
	}
	*d = span(v)
	return nil
}

func (d span) String() string { return watch.Format(time.Duration(d)) }
