package guard

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/rein-run/rein/agent"
)

func TestDefault(t *testing.T) {
	p := policy(t, Config{})
	if got := strings.Join(p.Denied(), ", "); got != "git push, git commit, gh pr create, gh pr edit, gh pr merge, gh pr review, gh pr comment, gh release create" {
		t.Errorf("denied %s", got)
	}
	if got := p.Tools(); !slices.Equal(got, []string{"web"}) || p.Network() || p.Commits() || len(p.Granted()) != 0 {
		t.Errorf("tools %v, network %v, commits %v, granted %v", got, p.Network(), p.Commits(), p.Granted())
	}
	for name, want := range map[string]Level{"WebSearch": Deny, "WebFetch": Deny, "web_search": Deny, "google_web_search": Deny, "Grep": "", "mcp__web__x": ""} {
		if v := p.Judge(agent.Tool{Name: name}, yard); v.Level != want {
			t.Errorf("%s: %v", name, v)
		}
	}
	open := policy(t, Config{Network: true})
	if v := open.Judge(agent.Tool{Name: "WebSearch"}, yard); v.Level != "" || len(open.Tools()) != 0 || len(open.Denied()) != len(p.Denied()) {
		t.Errorf("network opens more or less than the web tools: %v %v %v", v, open.Tools(), open.Denied())
	}
}

// What a level lets pass is granted too, and said.
func TestGrantedByLevel(t *testing.T) {
	p := policy(t, Config{Packs: []string{"publish"}, Levels: map[string]Level{
		"gh-pr-review": Allow, "npm publish": Warn, ruleSwitch: Allow, "gh-pr-create": Halt, ruleUnparsed: Allow, ruleWeb: Allow,
	}})
	if got := p.Granted(); !slices.Equal(got, []string{"gh pr review", "npm publish"}) {
		t.Errorf("granted %q", got)
	}
	if got := p.Off(); !slices.Equal(got, []string{ruleSwitch}) {
		t.Errorf("off %q", got)
	}
	if !p.Forge() || !policy(t, Config{Levels: map[string]Level{ruleForge: Allow}}).Forge() || policy(t, Config{Commits: true, Packs: []string{"publish"}, Allow: []string{"npm publish"}}).Forge() {
		t.Error("whether a forge has to know the user")
	}
}

func TestGrants(t *testing.T) {
	judge := func(p *Policy, command string) string {
		return p.Judge(agent.Tool{Command: command}, yard).Rule
	}
	p := policy(t, Config{Allow: []string{" gh  pr review ", "gh pr review", "gh issue comment", "mix deps.clean", "make deploy"}, Packs: []string{"elixir", "elixir"}, Rules: []Rule{{Command: "make deploy"}}})
	for command, want := range map[string]string{
		"gh pr review 1": "", "glab mr approve 1": "", "gh issue comment 1 -b x": "", "mix deps.clean x": "", "make deploy": "",
		"gh pr comment 1": "gh-pr-comment", "gh issue close 1": ruleForge, "mix hex.publish": "mix hex.publish", "gh api -X POST x": ruleAPI,
	} {
		if got := judge(p, command); got != want {
			t.Errorf("%s: %q, want %q", command, got, want)
		}
	}
	if got := strings.Join(p.Granted(), ", "); got != "gh pr review, gh issue comment, mix deps.clean, make deploy" {
		t.Errorf("granted %s", got)
	}
	if d := p.Denied(); slices.Contains(d, "gh pr review") || slices.Contains(d, "mix deps.clean") || !slices.Contains(d, "mix hex.publish") {
		t.Errorf("denied %v", d)
	}
	// What the shims refuse: all that the judge does, by the same levels.
	for _, c := range []Config{{}, {Allow: []string{"gh pr review", "gh issue create", "gh pr create"}}, {Levels: map[string]Level{ruleForge: Warn}}, {Packs: []string{"publish"}}} {
		p := policy(t, c)
		shims := p.Shims()
		for _, write := range append(forgeWrites(), "npm publish") {
			v := p.Judge(agent.Tool{Name: "Bash", Command: write}, yard)
			if got := slices.Contains(shims, write); got != v.Refused() {
				t.Errorf("%+v: %s: shims %v, judge %v", c, write, got, v)
			}
		}
		for _, own := range shims {
			if v := p.Judge(agent.Tool{Name: "Bash", Command: own + " x"}, yard); !v.Refused() && !strings.HasSuffix(own, " api") {
				t.Errorf("%+v: %s: a shim refuses it, the judge says %v", c, own, v)
			}
		}
		if !slices.Contains(shims, "gh api") || slices.Contains(shims, "git push") {
			t.Errorf("shims: %v", shims)
		}
	}
	commits := policy(t, Config{Commits: true})
	for command, want := range map[string]string{
		"git commit -m x": "", "git reset --soft HEAD~1": "", "git rebase x": "", "git branch x": ruleRefs, "git switch x": ruleSwitch, "git push": rulePush,
		"GIT_CONFIG_COUNT=0 git commit -m x": ruleSafety, "git -c core.hooksPath=x commit": ruleSafety, "env -i git commit -m x": ruleSafety,
	} {
		if got := judge(commits, command); got != want {
			t.Errorf("with commits: %s: %q, want %q", command, got, want)
		}
	}
}

func TestBadConfig(t *testing.T) {
	for _, c := range []struct {
		config Config
		err    error
		says   []string
	}{
		{Config{Allow: []string{"git push"}}, ErrUngrantable, []string{"gh pr review"}},
		{Config{Allow: []string{"git push origin main"}}, ErrUngrantable, nil},
		{Config{Allow: []string{"gh pr merge"}}, ErrUngrantable, []string{"can be granted: gh pr create"}},
		{Config{Allow: []string{"gh pr merge --admin"}}, ErrUngrantable, nil},
		{Config{Allow: []string{"gh api"}}, ErrUngrantable, nil},
		{Config{Allow: []string{"gh repo sync"}}, ErrUngrantable, nil},
		{Config{Allow: []string{"git commit"}}, ErrUngrantable, []string{"--commits"}},
		{Config{Allow: []string{"gh pr reviw"}}, ErrGrant, []string{"did you mean gh pr review?"}},
		{Config{Allow: []string{"gh issue coment"}}, ErrGrant, []string{"did you mean gh issue comment?"}},
		{Config{Allow: []string{"gh pr"}}, ErrGrant, []string{"whole", "gh pr create"}},
		{Config{Allow: []string{"gh pr review 12"}}, ErrGrant, []string{"without its arguments"}},
		{Config{Allow: []string{"npm test"}}, ErrGrant, []string{"nothing denies it"}},
		{Config{Allow: []string{"mix deps.clean"}}, ErrGrant, []string{"nothing denies it"}}, // the pack is off
		{Config{Allow: []string{""}}, ErrGrant, nil},
		{Config{Packs: []string{"elixer"}}, ErrPack, []string{"did you mean elixir?"}},
		{Config{Levels: map[string]Level{"git-pusch": Warn}}, ErrLevel, []string{"did you mean git-push?"}},
		{Config{Levels: map[string]Level{"git-commit": "off"}}, ErrLevel, []string{"allow, warn, deny and halt"}},
		{Config{Levels: map[string]Level{"git-commit": ""}}, ErrLevel, nil},
		{Config{Levels: map[string]Level{"git-push": Warn}}, ErrUngrantable, []string{"deny or halt"}},
		{Config{Levels: map[string]Level{"git-push-force": Allow}}, ErrUngrantable, nil},
		{Config{Levels: map[string]Level{"gh-pr-merge": Allow}}, ErrUngrantable, nil},
		{Config{Levels: map[string]Level{"forge-api": Warn}}, ErrUngrantable, nil},
		{Config{Rules: []Rule{{}}}, ErrRule, nil},
		{Config{Rules: []Rule{{Command: "a && b"}}}, ErrRule, []string{"plain words"}},
		{Config{Rules: []Rule{{Command: "/usr/bin/x y"}}}, ErrRule, []string{"without its path"}},
		{Config{Rules: []Rule{{Command: "-x y"}}}, ErrRule, nil},
		{Config{Rules: []Rule{{Command: "x", Level: "no"}}}, ErrLevel, nil},
		{Config{Rules: []Rule{{Command: "x"}, {Command: "x"}}}, ErrRule, []string{"already"}},
		{Config{Rules: []Rule{{Name: "git-push", Command: "x", Level: Allow}}}, ErrRule, []string{"already"}},
	} {
		_, err := New(c.config)
		var e *Error
		if !errors.Is(err, c.err) || !errors.As(err, &e) {
			t.Errorf("%+v: %v, want %v", c.config, err, c.err)
			continue
		}
		for _, s := range c.says {
			if !strings.Contains(err.Error(), s) {
				t.Errorf("%+v: %q does not say %q", c.config, err, s)
			}
		}
	}
}

func TestLevels(t *testing.T) {
	p := policy(t, Config{Levels: map[string]Level{"git-commit": Halt, "git-switch": Allow, "rm-outside": Warn, "gh-pr-edit": Warn, "unresolved": Deny, "git-push": Halt}})
	for command, want := range map[string]Level{
		"git commit": Halt, "git switch x": "", "rm -rf /x": Warn, "gh pr edit 1": Warn, "$X y": Deny, "git push": Halt,
		"rm -rf /x; git switch y; gh pr create; git commit": Halt, "gh pr edit; rm -rf /x": Warn,
	} {
		if v := p.Judge(agent.Tool{Command: command}, yard); v.Level != want {
			t.Errorf("%s: %v, want %s", command, v, want)
		}
	}
	if d := p.Denied(); slices.Contains(d, "gh pr edit") || !slices.Contains(d, "git commit") {
		t.Errorf("denied %v", d)
	}
	for _, r := range p.Rules() {
		if r.Level != p.Level(r.Name) || r.Reason == "" {
			t.Errorf("%+v", r)
		}
	}
}

func TestOwnRules(t *testing.T) {
	p := policy(t, Config{Packs: Packs(), Rules: []Rule{
		{Command: "make  deploy", Level: Halt, Reason: "No."},
		{Name: "auto", Command: "ansible-playbook --diff site.yml", Level: Warn},
		{Command: "Deployer"},
	}})
	for command, want := range map[string]string{
		"npm publish": "npm publish", "npm --registry x publish": "npm publish", "npm --registry=x publish": "npm publish", "npm -s publish": "npm publish",
		"npm run publish": "", "npm install publish": "", "npx npm publish": "npm publish", "cd x && sudo npm publish --tag y": "npm publish",
		"npm publish --dry-run": "", "npm publish --help": "", "yarn npm publish": "yarn npm publish", "yarn npm info": "",
		"make deploy": "make deploy", "make -C x deploy": "make deploy", "make deploy-docs": "", "make build deploy": "",
		"ansible-playbook site.yml": "", "ansible-playbook --diff site.yml": "auto", "ansible-playbook site.yml --diff": "auto",
		"deployer": "Deployer", "DEPLOYER x": "Deployer",
		"kubectl -n prod delete pod x": "kubectl delete", "kubectl --context c -n prod delete pod x": "kubectl delete", "kubectl get pods": "",
		"kubectl apply -f x --dry-run=client": "", "terraform -chdir=x destroy": "terraform destroy", "terraform plan -destroy": "",
		"mix do deps.get + deps.clean --all": "mix deps.clean", "mix do deps.get, deps.clean x": "mix deps.clean", "mix do deps.get,deps.clean x": "mix deps.clean",
		"mix do deps.get, compile": "", "cargo +nightly publish": "cargo publish", "docker push x": "docker push", "echo npm publish": "",
	} {
		for form, tool := range forms(t, command) {
			if v := p.Judge(tool, yard); v.Rule != want {
				t.Errorf("%s: %s: %v, want %q", form, command, v, want)
			}
		}
	}
	if v := p.Judge(agent.Tool{Command: "make deploy"}, yard); v.Level != Halt || v.Reason != "No." || v.Evidence != "make deploy" {
		t.Errorf("%+v", v)
	}
}

func TestPlaces(t *testing.T) {
	p := policy(t, Config{})
	at := func(in Place, command, want string) {
		t.Helper()
		if v := p.Judge(agent.Tool{Command: command}, in); v.Rule != want {
			t.Errorf("%+v: %s: %v, want %q", in, command, v, want)
		}
	}
	// A project that itself lies in a directory for temporary files.
	inTmp := Place{Dir: "/tmp/a/run", Home: "/h", Repos: []string{"/tmp/a/main/.git"}, Remotes: []string{"/tmp/a/remote.git"}}
	at(inTmp, "git commit -m x", ruleCommit)
	at(inTmp, "git -C ../main commit -m x", ruleCommit) // not told, and yet
	at(Place{Dir: "/tmp/a/run", Repos: []string{"/tmp/a/main"}}, "git -C ../main commit -m x", ruleCommit)
	at(inTmp, "git -C /tmp/b commit -m x", "")
	at(inTmp, "rm -rf /tmp/a/run", ruleRemove)
	at(inTmp, "rm -rf /tmp/b", "")
	at(inTmp, "git -C /tmp/b push /tmp/a/remote.git x", rulePush)
	at(inTmp, "git -C /tmp/b push /tmp/c.git x", "")
	// A shell that stays where it went.
	at(Place{Dir: "/w", Cwd: "/w/sub"}, "rm -rf ../x", "")
	at(Place{Dir: "/w", Cwd: "/"}, "rm -rf x", ruleRemove)
	at(Place{Dir: "/w", Cwd: "/tmp/r"}, "git commit", "")
	// A directory within its working tree.
	at(Place{Dir: "/w/pkg", Tree: "/w"}, "rm -rf ../build", "")
	at(Place{Dir: "/w/pkg", Tree: "/w"}, "rm -rf ../.git", ruleGitDir)
	at(Place{Dir: "/w/pkg", Tree: "/w"}, "rm -rf ../..", ruleRemove)
	// Nothing is known.
	at(Place{}, "git push", rulePush)
	at(Place{}, "git commit", ruleUnresolved)
	at(Place{}, "rm -rf x", ruleUnresolved)
	at(Place{}, "rm -rf /x", ruleRemove)
	at(Place{}, "rm -rf ~/x", ruleRemove)
	// Own directories for temporary files, and TMPDIR.
	at(Place{Dir: "/w", Temp: []string{"/scratch"}}, "rm -rf /scratch/x", "")
	at(Place{Dir: "/w", Temp: []string{"/scratch"}}, "rm -rf /tmp/x", ruleRemove)
	at(Place{Dir: "/w", Env: map[string]string{"TMPDIR": "/var/folders/x/T/"}}, `rm -rf "$TMPDIR/y" /var/folders/x/T/z`, "")
	at(Place{Dir: "/w", Temp: []string{"/", "."}}, "rm -rf /x", ruleRemove)
	// Unset, $TMPDIR/x is /x, whatever directories there are.
	at(Place{Dir: "/w", Temp: []string{"/tmp"}, Env: map[string]string{"HOME": "/h"}}, "rm -rf $TMPDIR/x", ruleRemove)
	at(Place{Dir: "/w", Temp: []string{"/tmp"}}, `rm -rf "$TMPDIR/x"`, ruleRemove)
	at(Place{Dir: "/w", Env: map[string]string{"X": "push", "D": "/etc"}}, "git $X", rulePush)
	at(Place{Dir: "/w", Env: map[string]string{"D": "/etc"}}, "rm -rf $D/x", ruleRemove)
	at(Place{Dir: "/w", Env: map[string]string{"GIT_DIR": "/tmp/x/.git"}}, "git commit", "")
	// What Rein itself puts into the environment is no tampering.
	at(Place{Dir: "/w", Env: map[string]string{"GIT_CONFIG_COUNT": "2"}}, "git gc", "")
	// Windows: words only.
	at(Place{Dir: `C:\w`, OS: "windows"}, `git push origin main`, rulePush)
	at(Place{Dir: `C:\w`, OS: "windows"}, `& "C:\Program Files\Git\bin\git.exe" push`, rulePush)
	at(Place{Dir: `C:\w`, OS: "windows"}, `Get-ChildItem | Select-Object Name`, "")
	if v := p.Judge(agent.Tool{Name: "PowerShell", Command: "if ($true) { git push }"}, Place{Dir: "/w"}); v.Rule != rulePush {
		t.Errorf("%v", v)
	}
}

func TestFiles(t *testing.T) {
	p := policy(t, Config{})
	for _, c := range []struct {
		tool agent.Tool
		want string
	}{
		{agent.Tool{Name: "Write", Writes: true, Files: []string{"/Users/dev/worktrees/run-1/.git/hooks/pre-push"}}, ruleGitDir},
		{agent.Tool{Name: "Edit", Writes: true, Files: []string{"a.go", ".git/config"}}, ruleGitDir},
		{agent.Tool{Name: "Edit", Writes: true, Files: []string{"../../repo/.git/refs/heads/main"}}, ruleGitDir},
		{agent.Tool{Name: "Read", Files: []string{".git/config"}}, ""},
		{agent.Tool{Name: "Write", Writes: true, Files: []string{".gitignore", ".github/x.yml", ".git/info/exclude"}}, ""},
	} {
		if v := p.Judge(c.tool, yard); v.Rule != c.want {
			t.Errorf("%+v: %v", c.tool, v)
		}
	}
}

func TestEvidence(t *testing.T) {
	p := policy(t, Config{})
	v := p.Judge(agent.Tool{Command: "cd x && bash -c \"git -C . push $(date) '" + strings.Repeat("x", 5000) + "'\"; ls"}, yard)
	if !strings.HasPrefix(v.Evidence, "git -C . push … ") || len(v.Evidence) > 300 || strings.ContainsAny(v.Evidence, "\x01\x02\x03\n") {
		t.Errorf("%q", v.Evidence)
	}
	if !strings.Contains(v.Reason, "working tree") || !v.Refused() || !strings.HasPrefix(v.String(), "deny git-push: git -C") {
		t.Errorf("%v %q", v, v.Reason)
	}
	if (Verdict{}).Refused() || (Verdict{}).String() != "allow" {
		t.Error("the zero value refuses")
	}
	// Markers that the agent writes itself are ordinary text.
	for _, command := range []string{"cd \x01 && git commit -m x", `cd $'\x01' && git commit -m x`, `cd "$(printf '\x01')" && git commit -m x`} {
		if v := p.Judge(agent.Tool{Command: command}, yard); v.Rule != ruleCommit {
			t.Errorf("%q: %v", command, v)
		}
	}
}

// What cannot be judged must not run: silence is no consent.
func TestPanicRefuses(t *testing.T) {
	var p *Policy
	if v := p.Judge(agent.Tool{Command: "ls"}, yard); v.Level != Deny || v.Rule != ruleUnparsed || v.Evidence != "ls" || v.Reason == "" {
		t.Errorf("%+v", v)
	}
}
