package agent

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/rein-run/rein/host/driver"
)

// askTime bounds one question to a CLI about itself: claude 2.1.332 takes 1 s,
// and ten times that where many ask together.
const askTime = 30 * time.Second

// lacks begins what is kept of a help: no flag missing is an answer too.
const lacks = "lacks "

// AskLogin asks the CLI of an agent whether somebody is logged in, for at most
// 30 s. No model is called. What cannot be known is LoginUnknown.
func AskLogin(ctx context.Context, h ProbeHost, a Agent, f Facts, env driver.Env, unset []string) Login {
	d, ok := a.(Doctor)
	if !ok || len(d.LoginArgs(f.Version)) == 0 {
		return Login{State: LoginUnknown}
	}
	out, code, err := ask(ctx, h, f, d.LoginArgs(f.Version), env, unset)
	if err != nil {
		return Login{State: LoginUnknown, Detail: Clip(err.Error())}
	}
	l := d.ParseLogin(code, out)
	l.Detail = Clip(l.Detail)
	return l
}

// MissingFlags are those of the Doctor that the CLI's help no longer has: the
// CLI has moved on, and what uses them may fail. ok is false when there was no
// help to look at. The answer is kept in o.Cache like the version; nil options
// keep none.
func MissingFlags(ctx context.Context, h ProbeHost, a Agent, f Facts, o *ProbeOptions) (missing []string, ok bool) {
	d, is := a.(Doctor)
	if !is || len(d.Flags(f.Version)) == 0 {
		return nil, false
	}
	if o == nil {
		o = &ProbeOptions{}
	}
	key := ""
	if place, err := h.Look(ctx, f.Exe, o.Env); err == nil {
		key = cacheKey(o.HostName, a.Name(), place) + "|flags|" + strings.Join(d.Flags(f.Version), " ")
		kept, _ := o.Cache.get(key)
		if flags, ok := strings.CutPrefix(kept, lacks); ok {
			return strings.Fields(flags), true
		}
	}
	var help []byte
	for _, args := range d.HelpArgs(f.Version) {
		out, _, err := ask(ctx, h, f, args, o.Env, a.Capabilities(f.Version).Scrub)
		if err != nil {
			return nil, false
		}
		help = append(append(help, out...), '\n')
	}
	words := strings.FieldsFunc(string(help), func(r rune) bool {
		return r != '-' && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
	})
	slices.Sort(words)
	for _, flag := range d.Flags(f.Version) {
		if _, found := slices.BinarySearch(words, flag); !found {
			missing = append(missing, flag)
		}
	}
	if len(missing) == len(d.Flags(f.Version)) { // something else was printed, an error for example
		return nil, false
	}
	if key != "" {
		o.Cache.put(key, lacks+strings.Join(missing, " "))
	}
	return missing, true
}

func ask(ctx context.Context, h ProbeHost, f Facts, args []string, env driver.Env, unset []string) ([]byte, int, error) {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	out, errOut, exit, err := h.Output(ctx, &driver.Spec{
		Argv: append([]string{f.Exe}, args...), Env: env, Unset: unset, Helper: true,
	}, 256<<10)
	if err != nil {
		return nil, 0, err
	}
	code := -1
	if exit.Code != nil {
		code = *exit.Code
	}
	return bytes.Join([][]byte{out, errOut}, []byte("\n")), code, nil
}
