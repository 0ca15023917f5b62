package guard

import (
	"slices"
	"strings"
)

// forgeWritten are the verbs of gh that change something for others to see.
var forgeWritten = map[string]map[string]bool{
	"pr":        set("create new edit merge review comment close reopen ready lock unlock update-branch revert"),
	"issue":     set("create new edit comment close reopen delete lock unlock pin unpin transfer develop"),
	"release":   set("create new edit delete upload delete-asset"),
	"repo":      set("create new delete edit fork archive unarchive rename sync deploy-key autolink"),
	"workflow":  set("run enable disable"),
	"run":       set("rerun cancel delete"),
	"gist":      set("create new edit delete rename"),
	"label":     set("create edit delete clone"),
	"secret":    set("set delete remove"),
	"variable":  set("set delete remove"),
	"ssh-key":   set("add delete"),
	"gpg-key":   set("add delete"),
	"cache":     set("delete"),
	"codespace": set("create delete edit rebuild stop"),
	"project":   set("create close copy delete edit field-create field-delete item-add item-archive item-create item-delete item-edit link mark-template unlink"),
}

// ungrantableForge are those that change what others build on, or can.
var ungrantableForge = set("pr/merge pr/update-branch pr/revert repo/delete repo/edit repo/sync repo/archive repo/unarchive repo/rename repo/deploy-key " +
	"secret/set secret/delete secret/remove ssh-key/add ssh-key/delete gpg-key/add gpg-key/delete")

// forge is a program of a code host, and what gh would call its commands.
type forge struct {
	name  string
	nouns map[string]string    // its own word → gh's; "": the same word
	verbs map[string]string    // the same for the second word
	whole map[string][2]string // its commands of one word
	// passes: what is not in nouns and whole goes on to git.
	passes bool
	help   bool // -h explains, and is no option with another meaning
}

// forges is the one table: the judge reads a command by it, and the shims are
// told by it what to refuse.
var forges = []forge{
	{name: "gh", help: true},
	{
		name: "glab", help: true,
		nouns: map[string]string{"mr": "pr", "merge-request": "pr", "ci": "workflow", "pipeline": "workflow", "snippet": "gist"},
		verbs: map[string]string{
			"update": "edit", "accept": "merge", "note": "comment", "approve": "review", "revoke": "review",
			"for": "create", "new-for": "create", "rebase": "update-branch", "trigger": "run",
		},
	},
	{
		name:  "tea",
		nouns: map[string]string{"pulls": "pr", "pull": "pr", "pr": "pr", "issues": "issue", "issue": "issue", "i": "issue", "releases": "release", "release": "release", "r": "release", "repos": "repo", "repo": "repo"},
		verbs: map[string]string{"c": "create", "approve": "review", "lgtm": "review", "reject": "review", "m": "merge"},
		whole: map[string][2]string{"comment": {"issue", "comment"}, "c": {"issue", "comment"}},
	},
	{
		name: "hub", passes: true,
		nouns: map[string]string{"release": "release", "issue": "issue", "gist": "gist", "api": "api"},
		whole: map[string][2]string{
			"pull-request": {"pr", "create"}, "merge": {"pr", "merge"},
			"fork": {"repo", "fork"}, "create": {"repo", "create"}, "delete": {"repo", "delete"}, "sync": {"repo", "sync"},
		},
	},
}

func forgeOf(name string) *forge {
	for i := range forges {
		if forges[i].name == name {
			return &forges[i]
		}
	}
	return nil
}

// gh is what gh would call a command; false: it goes on to git.
func (f *forge) gh(noun, verb string) (string, string, bool) {
	if w, ok := f.whole[noun]; ok {
		return w[0], w[1], true
	}
	n, known := f.nouns[noun]
	switch {
	case known:
	case f.passes:
		return "", "", false
	default:
		n = noun
	}
	if v, ok := f.verbs[verb]; ok {
		verb = v
	}
	if n == "workflow" && verb == "create" && f.name != "gh" {
		verb = "run" // a pipeline is created as a workflow is run
	}
	return n, verb, true
}

// own are the commands of the program that gh would call by these words, in no
// order.
func (f *forge) own(noun, verb string) []string {
	var all []string
	for w, gh := range f.whole {
		if gh == [2]string{noun, verb} {
			all = append(all, f.name+" "+w)
		}
	}
	nouns := aliases(f.nouns, noun)
	if len(nouns) == 0 && !f.passes {
		nouns = []string{noun}
	}
	for _, n := range nouns {
		for _, v := range append(aliases(f.verbs, verb), verb) {
			all = append(all, f.name+" "+n+" "+v)
		}
		if f.name != "gh" && noun == "workflow" && verb == "run" {
			all = append(all, f.name+" "+n+" create")
		}
	}
	return all
}

func aliases(m map[string]string, word string) []string {
	var all []string
	for k, v := range m {
		if v == word {
			all = append(all, k)
		}
	}
	return all
}

// forgeWrites are the commands of gh that change something, in words.
func forgeWrites() []string {
	var all []string
	for noun, verbs := range forgeWritten {
		for v := range verbs {
			all = append(all, "gh "+noun+" "+v)
		}
	}
	slices.Sort(all)
	return all
}

func forgeWrite(command string) bool {
	f := strings.Fields(command)
	return len(f) == 3 && f[0] == "gh" && forgeWritten[f[1]][f[2]]
}

// ungrantable says that nobody may lift a command.
func ungrantable(command string) bool {
	f := strings.Fields(command)
	switch {
	case len(f) >= 2 && f[0] == "git" && f[1] == "push", len(f) >= 2 && f[0] == "gh" && f[1] == "api":
		return true
	}
	return len(f) >= 3 && f[0] == "gh" && ungrantableForge[f[1]+"/"+f[2]]
}

// forge judges gh, and its kin by what gh would call it.
func (w *walk) forge(s *state, f *forge, argv []string) string {
	for _, a := range argv[1:] {
		if a == "--help" || a == "-h" && f.help {
			return some
		}
	}
	ops := operandsWith(argv[1:], "-R", "--repo", "--hostname")
	if len(ops) == 0 {
		return some
	}
	if doubtful(ops[0]) {
		w.hit(ruleUnresolved, argv)
		return some
	}
	second := ""
	if len(ops) > 1 {
		second = ops[1]
	}
	noun, verb, ok := f.gh(ops[0], second)
	if !ok {
		return w.git(s, append([]string{"git"}, argv[1:]...))
	}
	switch {
	case noun == "api":
		w.api(argv)
	case noun == "pr" && verb == "checkout":
		if w.gitPlace(&gitCall{dirs: s.dirs}) == ours {
			w.hit(ruleSwitch, argv)
		}
	case doubtful(verb) && forgeWritten[noun] != nil:
		w.hit(ruleUnresolved, argv)
	case forgeWritten[noun][verb]:
		if rule, lifted := w.p.forgeRule(noun, verb); !lifted {
			w.hit(rule, argv)
		}
	}
	return some
}

// forgeRule is the rule of a command of gh that changes something. One that has
// a rule of its own is lifted by the level of that.
func (p *Policy) forgeRule(noun, verb string) (rule string, lifted bool) {
	if verb == "new" {
		verb = "create"
	}
	if rule := "gh-" + noun + "-" + verb; p.builtin[rule].Name != "" {
		return rule, false
	}
	return ruleForge, p.lifted["gh "+noun+" "+verb]
}

// operandsWith is operands for options that take a value by name.
func operandsWith(args []string, values ...string) []string {
	var ops []string
	for i := 0; i < len(args); i++ {
		a := args[i]
		if len(a) > 1 && a[0] == '-' {
			if slices.Contains(values, a) {
				i++
			}
			continue
		}
		ops = append(ops, a)
	}
	return ops
}

// api judges gh api: it writes with another method than GET, and with fields,
// which make it a POST.
func (w *walk) api(argv []string) {
	method, fields, path := "", false, ""
	mutation := false
	args := argv[2:]
	for i := 0; i < len(args); i++ {
		a := args[i]
		value := func(flag string) (string, bool) {
			if a == flag {
				if i++; i < len(args) {
					return args[i], true
				}
				return "", true
			}
			if v, ok := strings.CutPrefix(a, flag+"="); ok {
				return v, true
			}
			if len(flag) == 2 {
				return strings.CutPrefix(a, flag)
			}
			return "", false
		}
		if v, ok := value("-X"); ok {
			method = v
			continue
		}
		if v, ok := value("--method"); ok {
			method = v
			continue
		}
		field := false
		for _, f := range []string{"-f", "-F", "--field", "--raw-field", "--input"} {
			if v, ok := value(f); ok {
				fields, field = true, true
				v = strings.ToLower(v)
				mutation = mutation || f == "--input" || strings.Contains(v, "mutation") || strings.Contains(v, "=@") || strings.HasPrefix(v, "query=") && doubtful(v)
				break
			}
		}
		switch {
		case field:
		case a == "-H" || a == "--header" || a == "-q" || a == "--jq" || a == "-t" || a == "--template" || a == "-p" || a == "--preview" || a == "--cache" || a == "--hostname":
			i++
		case path == "" && (a == "" || a[0] != '-'):
			path = a
		}
	}
	writes := fields && method == "" || method != "" && !strings.EqualFold(method, "GET") && !strings.EqualFold(method, "HEAD")
	if path == "graphql" {
		writes = mutation
	}
	if writes {
		w.hit(ruleAPI, argv)
	}
}
