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
func (w *walk) forge(s *state, name string, argv []string) string {
	for _, a := range argv[1:] {
		if a == "--help" || a == "-h" && name != "tea" {
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
	noun, verb := ops[0], ""
	if len(ops) > 1 {
		verb = ops[1]
	}
	switch name {
	case "glab":
		noun, verb = glab(noun, verb)
	case "tea":
		noun, verb = tea(noun, verb)
	case "hub":
		switch noun {
		case "pull-request":
			noun, verb = "pr", "create"
		case "release", "issue", "gist", "api":
			if noun == "issue" && verb == "" {
				return some
			}
		case "merge":
			noun, verb = "pr", "merge"
		case "fork", "create", "delete", "sync":
			noun, verb = "repo", noun
		default:
			// hub passes on to git whatever it does not know.
			return w.git(s, append([]string{"git"}, argv[1:]...))
		}
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

func glab(noun, verb string) (string, string) {
	switch noun {
	case "mr", "merge-request":
		noun = "pr"
	case "ci", "pipeline":
		noun = "workflow"
		if verb == "trigger" || verb == "create" {
			verb = "run"
		}
	case "snippet":
		noun = "gist"
	}
	switch verb {
	case "update":
		verb = "edit"
	case "accept":
		verb = "merge"
	case "note":
		verb = "comment"
	case "approve", "revoke":
		verb = "review"
	case "for", "new-for":
		verb = "create"
	case "rebase":
		verb = "update-branch"
	}
	return noun, verb
}

func tea(noun, verb string) (string, string) {
	switch noun {
	case "pulls", "pull", "pr":
		noun = "pr"
	case "issues", "issue", "i":
		noun = "issue"
	case "releases", "release", "r":
		noun = "release"
	case "repos", "repo":
		noun = "repo"
	case "comment", "c":
		return "issue", "comment"
	}
	switch verb {
	case "c":
		verb = "create"
	case "approve", "lgtm", "reject":
		verb = "review"
	case "m":
		verb = "merge"
	}
	return noun, verb
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
