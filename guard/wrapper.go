package guard

import (
	"path"
	"slices"
	"strings"
)

// runner says how a program that runs another one takes its options.
type runner struct {
	short string   // short options that take a value
	long  []string // long options that take a value as the next argument
	skip  int      // arguments before the command
	vars  bool     // NAME=VALUE may stand before the command
}

var runners = map[string]runner{
	"sudo":     {short: "CDghpRrTtUu", long: []string{"--user", "--group", "--chdir", "--host", "--prompt", "--role", "--type", "--close-from"}, vars: true},
	"doas":     {short: "Cu"},
	"nice":     {short: "n", long: []string{"--adjustment"}},
	"ionice":   {short: "cnpPu", long: []string{"--class", "--classdata"}},
	"chrt":     {short: "TPD", skip: 1},
	"taskset":  {skip: 1},
	"timeout":  {short: "ks", long: []string{"--kill-after", "--signal"}, skip: 1},
	"gtimeout": {short: "ks", long: []string{"--kill-after", "--signal"}, skip: 1},
	"nohup":    {},
	"setsid":   {},
	"stdbuf":   {short: "ioe", long: []string{"--input", "--output", "--error"}},
	"unbuffer": {}, "chronic": {}, "builtin": {}, "noglob": {}, "nocorrect": {},
	"exec":       {short: "a"},
	"time":       {short: "fo", long: []string{"--format", "--output"}},
	"gtime":      {short: "fo"},
	"caffeinate": {short: "tw"},
	"strace":     {short: "abeEIoOpPsSuX"},
	"ltrace":     {short: "aeFlnopsuwx"},
	"busybox":    {}, "toybox": {},
	"chroot": {long: []string{"--userspec", "--groups"}, skip: 1},
	"npx":    {short: "p", long: []string{"--package"}}, "bunx": {},
	"dotenv":   {short: "efc"},
	"faketime": {skip: 1},
}

// toolRunners run another command behind a verb: poetry run git push.
var toolRunners = map[string][]string{
	"uv": {"run"}, "poetry": {"run"}, "pipenv": {"run"}, "rye": {"run"}, "hatch": {"run"}, "pdm": {"run"}, "conda": {"run"},
	"bundle": {"exec"}, "npm": {"exec", "x"}, "pnpm": {"exec"}, "yarn": {"exec"}, "mise": {"exec", "x"}, "asdf": {"exec"},
	"direnv": {"exec"}, "rtx": {"exec"}, "opam": {"exec"}, "stack": {"exec"}, "cabal": {"exec"},
}

// loose are programs whose options are too many to follow: the command begins
// where a name stands that is judged. Those marked run it where files are not
// ours.
var loose = map[string]bool{
	"systemd-run": false, "tmux": false, "screen": false, "bwrap": false, "unshare": false, "nsenter": false, "firejail": false,
	"proot": false, "script": false, "watch": false, "entr": false, "runuser": false, "su": false, "flock": false, "parallel": false, "start": false,
	"nix": false, "nix-shell": false, "watchexec": false, "setpriv": false, "capsh": false, "prlimit": false, "expect": false, "doppler": false, "op": false,
	"ssh-agent": false, "dbus-run-session": false, "xvfb-run": false, "gosu": false, "su-exec": false, "tini": false, "dumb-init": false,
	"rlwrap": false, "valgrind": false, "perf": false, "hyperfine": false, "torsocks": false, "proxychains4": false, "aws-vault": false, "retry": false,
	"gdb": false, "cross-env": false, "env-cmd": false, "setarch": false, "cgexec": false, "runcon": false, "sg": false, "daemonize": false, "dtach": false,
	"zellij": false, "pueue": false, "sem": false, "concurrently": false, "start-stop-daemon": false,
	"docker": true, "podman": true, "nerdctl": true, "docker-compose": true, "kubectl": true, "lima": true, "limactl": true, "vagrant": true,
}

// wrapper judges the command behind a program that runs another.
func (w *walk) wrapper(s *state, name string, argv []string, in string) (string, bool) {
	args := argv[1:]
	switch name {
	case "sh", "bash", "dash", "zsh", "ksh", "mksh", "ash", "fish", "rbash", "yash":
		return w.shell(s, args, in), true
	case "command":
		if len(args) > 0 && (args[0] == "-v" || args[0] == "-V") {
			if len(args) > 1 {
				return args[1] + "\n", true
			}
			return "", true
		}
		return w.direct(s, skipOptions(args, runner{}), in), true
	case "env":
		return w.env(s, args, in), true
	case "xargs", "gxargs":
		return w.xargs(s, args, in), true
	case "ssh", "mosh":
		// Another machine, in the home of somebody: no directory is known.
		rest := skipOptions(args, runner{short: "bcDEeFIiJLlmOopQRSWw"})
		c := s.copy()
		c.dirs, c.over = []string{some}, false
		if len(rest) < 2 {
			return w.program(c, in, ""), true
		}
		return w.program(c, w.join(skipOptions(rest[1:], runner{})), in), true
	case "at", "batch":
		w.program(s.copy(), in, "")
		return "", true
	case "crontab":
		w.scan(s, in)
		return some, true
	case "powershell", "pwsh", "cmd":
		w.scan(s, w.join(args))
		return some, true
	}
	if r, ok := runners[name]; ok {
		rest := skipOptions(args, r)
		t := s
		if r.vars {
			for len(rest) > 0 && isAssign(rest[0]) {
				if t == s {
					t = s.copy()
				}
				n, v, _ := strings.Cut(rest[0], "=")
				w.setVar(t, n, []string{v})
				rest = rest[1:]
			}
		}
		return w.direct(t, rest, in), true
	}
	if verbs, ok := toolRunners[name]; ok {
		for i, a := range args {
			if slices.Contains(verbs, a) {
				w.direct(s.copy(), skipOptions(args[i+1:], runner{}), in)
				w.search(s, args[i+1:], in)
				break
			}
			if !strings.HasPrefix(a, "-") {
				break
			}
		}
		return some, true
	}
	if foreign, ok := loose[name]; ok {
		c := s.copy()
		c.foreign = c.foreign || foreign
		if foreign {
			c.dirs = []string{some}
		}
		w.search(c, args, in)
		return some, true
	}
	return "", false
}

func isAssign(a string) bool {
	i := strings.IndexByte(a, '=')
	return i > 0 && a[0] != '-' && strings.IndexByte(a[:i], '/') < 0
}

// skipOptions returns the command that stands behind a program's options.
func skipOptions(args []string, r runner) []string {
	i := 0
	for i < len(args) {
		a := args[i]
		if a == "--" {
			i++
			break
		}
		if len(a) < 2 || a[0] != '-' {
			if a == string(unset) {
				i++ // an option that is not there
				continue
			}
			break
		}
		i++
		if strings.HasPrefix(a, "--") {
			if slices.Contains(r.long, a) {
				i++
			}
			continue
		}
		// The value is the rest of the cluster, or the next argument.
		if j := strings.IndexAny(a[1:], orNone(r.short)); j >= 0 && j == len(a)-2 {
			i++
		}
	}
	i += r.skip
	return args[min(i, len(args)):]
}

func orNone(s string) string {
	if s == "" {
		return "\x00"
	}
	return s
}

// search judges the commands in the arguments of a program whose options are
// not known: from the first name that is judged, and each argument that is a
// script by itself.
func (w *walk) search(s *state, args []string, in string) {
	for i, a := range args {
		if strings.ContainsAny(a, " \t\n;") {
			w.script(s.copy(), a, "")
			continue
		}
		if name := base(a); w.interesting(name) || isRunner(name) {
			w.direct(s.copy(), args[i:], in)
			return
		}
	}
}

func isRunner(name string) bool {
	switch name {
	case "sh", "bash", "dash", "zsh", "ksh", "ash", "env", "xargs", "find":
		return true
	}
	_, ok := runners[name]
	return ok
}

// shell is sh -c '…', a script by name, or one on stdin.
func (w *walk) shell(s *state, args []string, in string) string {
	command, stdin, check := false, false, false
	i := 0
	for ; i < len(args); i++ {
		a := args[i]
		if a == "--" || a == "-" {
			i++
			break
		}
		if len(a) < 2 || a[0] != '-' && a[0] != '+' {
			break
		}
		if strings.HasPrefix(a, "--") {
			if a == "--rcfile" || a == "--init-file" {
				i++
			}
			if a == "--command" { // fish
				command = true
			}
			continue
		}
		command = command || a[0] == '-' && strings.Contains(a, "c")
		check = check || a[0] == '-' && strings.Contains(a, "n")
		stdin = stdin || a[0] == '-' && strings.Contains(a, "s")
		if strings.HasSuffix(a, "o") || strings.HasSuffix(a, "O") {
			i++ // bash -euo pipefail
		}
	}
	if check {
		return "" // bash -n: the syntax only
	}
	rest := args[min(i, len(args)):]
	c := s.copy()
	c.over = false
	switch {
	case command && len(rest) > 0:
		c.args, c.known = nil, true
		if len(rest) > 1 {
			c.set("0", rest[1:2])
			c.args = rest[2:]
		}
		if doubtful(rest[0]) && known(rest[0]) == "" {
			w.hit(ruleUnresolved, append([]string{"sh", "-c"}, rest...))
			return some
		}
		return w.program(c, rest[0], in)
	case len(rest) > 0 && !stdin:
		if text, ok := w.files[resolve(w.dir(s), rest[0])]; ok {
			return w.shellFile(s, text, rest[1:], in)
		}
		return some
	case in == "":
		return some
	case known(in) == "":
		// curl … | sh
		w.hit(ruleUnresolved, append([]string{"…", "|", "sh"}, args...))
		return some
	}
	c.args, c.known = rest, true
	return w.program(c, in, "")
}

// known is what is left of a text when what is not known is taken out.
func known(text string) string {
	return strings.Trim(text, "\x01\x02\x03 \t\n")
}

func (w *walk) shellFile(s *state, text string, args []string, in string) string {
	if known(text) == "" {
		return some
	}
	c := s.copy()
	c.args, c.known, c.over = args, true, false
	return w.program(c, text, in)
}

func (w *walk) env(s *state, args []string, in string) string {
	c := s.copy()
	i := 0
	for ; i < len(args); i++ {
		a := args[i]
		if a == "--" {
			i++
			break
		}
		if a == "-" || a == "--ignore-environment" {
			c.tampered = true
			continue
		}
		if len(a) < 2 || a[0] != '-' {
			break
		}
		if strings.HasPrefix(a, "--") {
			name, v, has := strings.Cut(a, "=")
			if !has && (name == "--unset" || name == "--chdir" || name == "--split-string") {
				if i++; i < len(args) {
					v = args[i]
				}
			}
			switch name {
			case "--unset":
				w.envUnset(c, v)
			case "--chdir":
				w.cd(c, []string{v})
			case "--split-string":
				return w.env(c, append(w.words(c, v), args[min(i+1, len(args)):]...), in)
			}
			continue
		}
		for j := 1; j < len(a); j++ {
			value := func() string {
				if j+1 < len(a) {
					return a[j+1:]
				}
				if i++; i < len(args) {
					return args[i]
				}
				return ""
			}
			switch a[j] {
			case 'i':
				c.tampered = true
				continue
			case 'u':
				w.envUnset(c, value())
			case 'C':
				w.cd(c, []string{value()})
			case 'P':
				value()
			case 'S':
				v := value()
				return w.env(c, append(w.words(c, v), args[min(i+1, len(args)):]...), in)
			default:
				continue
			}
			break
		}
	}
	for ; i < len(args) && isAssign(args[i]); i++ {
		n, v, _ := strings.Cut(args[i], "=")
		w.setVar(c, n, []string{v})
	}
	return w.direct(c, args[min(i, len(args)):], in)
}

func (w *walk) envUnset(s *state, name string) {
	s.tamper(name)
	s.set(name, []string{string(unset)})
}

func (w *walk) xargs(s *state, args []string, in string) string {
	replace, whole := "", false
	i := 0
	for ; i < len(args); i++ {
		a := args[i]
		if a == "--" {
			i++
			break
		}
		if len(a) < 2 || a[0] != '-' {
			break
		}
		if strings.HasPrefix(a, "--") {
			name, v, has := strings.Cut(a, "=")
			whole = whole || name == "--null" || name == "--delimiter"
			switch name {
			case "--replace":
				if replace = v; !has {
					replace = "{}"
				}
			case "--max-args", "--max-procs", "--max-lines", "--max-chars", "--delimiter", "--arg-file", "--eof":
				if !has {
					i++
				}
			}
			continue
		}
		whole = whole || a[1] == '0' || a[1] == 'd' || strings.Contains(a, "0") && strings.Trim(a, "-0rtpx") == ""
		switch j := strings.IndexAny(a[1:], "InPLsdEaiJRS"); {
		case j < 0:
		case a[1+j] == 'i':
			if replace = a[2+j:]; replace == "" {
				replace = "{}"
			}
		case a[1+j] == 'I' || a[1+j] == 'J':
			if replace = a[2+j:]; replace == "" {
				if i++; i < len(args) {
					replace = args[i]
				}
			}
		case j == len(a)-2:
			i++
		}
	}
	cmd := args[min(i, len(args)):]
	if len(cmd) == 0 {
		return in // echo
	}
	// Words; whole lines with -I; whatever there is with -0 and -d.
	items := strings.Fields(in)
	if whole || replace != "" {
		items = strings.FieldsFunc(in, func(r rune) bool { return r == '\n' })
	}
	if len(items) == 0 {
		items = []string{some}
	}
	if len(items) > maxItems {
		items = append(slices.Clip(items[:maxItems]), some)
	}
	if replace == "" {
		return w.direct(s.copy(), append(slices.Clone(cmd), items...), "")
	}
	var out string
	for _, item := range items {
		argv := make([]string, len(cmd))
		for k, a := range cmd {
			if argv[k] = a; strings.Count(a, replace)*len(item) < maxValue {
				argv[k] = strings.ReplaceAll(a, replace, item)
			}
		}
		out = w.concat(out, w.direct(s.copy(), argv, ""))
	}
	return out
}

// placesFiles judges programs that write files in place.
func (w *walk) placesFiles(s *state, name string, argv []string) {
	args := argv[1:]
	ops := operands(args, "")
	if i := slices.Index(args, "-t"); i >= 0 && i+1 < len(args) {
		ops = append(ops, args[i+1]) // cp -t DIR FILE
	}
	switch name {
	case "mv", "tee", "truncate", "touch", "chmod":
		if name == "chmod" && len(ops) > 0 {
			ops = ops[1:]
		}
	case "cp", "ln", "install", "rsync":
		if len(ops) > 0 {
			// Copied from is read only; copied into a directory is the name in it.
			to := ops[len(ops)-1]
			from := ops[:len(ops)-1]
			ops = []string{to}
			for _, f := range from {
				ops = append(ops, strings.TrimRight(to, "/")+"/"+path.Base(f))
			}
			if name != "rsync" && len(from) == 1 && !strings.HasSuffix(to, "/") {
				ops = ops[:1]
			}
		}
	case "sed":
		inPlace := slices.ContainsFunc(args, func(a string) bool {
			return strings.HasPrefix(a, "-i") || strings.HasPrefix(a, "--in-place") || a == "-ni" || a == "-Ei" || a == "-ri"
		})
		if !inPlace {
			return
		}
	case "dd":
		ops = nil
		for _, a := range args {
			if f, ok := strings.CutPrefix(a, "of="); ok {
				ops = append(ops, f)
			}
		}
	}
	for _, f := range ops {
		w.writes(s, f, argv)
	}
}
