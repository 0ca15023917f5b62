package prompt

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/rein-run/rein/agent"
	"github.com/rein-run/rein/guard"
	"github.com/rein-run/rein/watch"
)

func policy(t *testing.T, c guard.Config) *guard.Policy {
	t.Helper()
	p, err := guard.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

const all = "`git push`, `git commit`, `gh pr create`, `gh pr edit`, `gh pr merge`, `gh pr review`, `gh pr comment`, `gh release create`"

func TestSection(t *testing.T) {
	for _, c := range []struct {
		name   string
		policy *guard.Policy
		limits Limits
		want   string
	}{
		{"nothing", nil, Limits{Enforced: true, Checked: true}, ""},
		{"refused", policy(t, guard.Config{}), Limits{Enforced: true, Checked: true, Total: 30 * time.Minute}, `## Limits of this run

- Withheld, and refused before it runs: ` + all + `, the web tools. What does the same by another way is refused as well. Do not look for a way around: say in your answer what you would have done.
- The repository is compared before and after the run, however it ends: commits, branches, tags, stashes, its configuration and hooks, and what is pushed are found, and the run has failed.
- Time: 30m from the start.
- Crossing that limit stops the run in the middle of whatever it does. What is not in a file by then is lost: write as you go.
`},
		{"asked for", policy(t, guard.Config{}), Limits{}, `## Limits of this run

- Do not use: ` + all + `, the web tools, nor anything that does the same.
`},
		{
			"granted", policy(t, guard.Config{Allow: []string{"gh pr review", "gh  pr comment"}, Commits: true, Network: true, Packs: []string{"elixir"}}),
			Limits{Halts: true, Checked: true, Tokens: 1_200_000, CostUSD: 2.5, SubAgents: 3, Total: 90 * time.Minute},
			`## Limits of this run

- Do not use: ` + "`git push`, `gh pr create`, `gh pr edit`, `gh pr merge`, `gh release create`, `mix deps.clean`, `mix hex.publish`, `mix ecto.drop`, `mix ecto.reset`" + `, nor anything that does the same. A run that does is stopped at once.
- Granted, use it where the task needs it: ` + "`git commit`, `gh pr review`, `gh pr comment`" + `, the web tools.
- Commits on the branch that is checked out are yours to make; leave every other reference as it is.
- The repository is compared before and after the run, however it ends: branches, tags, stashes, its configuration and hooks, and what is pushed are found, and the run has failed.
- Tokens: 1,200,000. Input, cache writes and output count, those of sub-agents too; cache reads do not.
- Money: $2.50.
- Sub-agents: at most 3.
- Time: 1h30m from the start.
- Crossing any of these stops the run in the middle of whatever it does. What is not in a file by then is lost: write as you go.
`,
		},
		{"sandboxed", policy(t, guard.Config{Commits: true}), Limits{Sandboxed: true}, `## Limits of this run

- Do not use: ` + strings.Replace(all, "`git commit`, ", "", 1) + `, the web tools, nor anything that does the same.
- Granted, use it where the task needs it: ` + "`git commit`" + `.
- A sandbox holds this run: files can be written in the working directory and in the temporary directory alone, references and configuration of git are read-only but for your commits, and nothing but your model can be reached over the network. What it refuses ("Read-only file system", "Permission denied", no connection) stays refused: do not look for a way around.
`},
		{"no clock", nil, Limits{Total: watch.None, CostUSD: 0.125}, `## Limits of this run

- Money: $0.125.
- Crossing that limit stops the run in the middle of whatever it does. What is not in a file by then is lost: write as you go.
`},
	} {
		got := Section(c.policy, c.limits)
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: %s", c.name, diff)
		}
		if n := strings.Count(got, "\n"); n > 25 {
			t.Errorf("%s: %d lines", c.name, n)
		}
	}
}

// The prompt and the judge speak of the same commands, whatever was granted.
func TestPromptSaysWhatIsJudged(t *testing.T) {
	for _, c := range []guard.Config{
		{},
		{Commits: true},
		{Network: true},
		{Allow: []string{"gh pr create"}},
		{Packs: guard.Packs()},
		{Levels: map[string]guard.Level{"gh-pr-edit": guard.Warn, "git-commit": guard.Halt, "web": guard.Allow}},
		{Rules: []guard.Rule{{Command: "npm publish"}, {Command: "make deploy", Level: guard.Warn}}},
	} {
		p := policy(t, c)
		text := Section(p, Limits{Enforced: true})
		for _, r := range p.Rules() {
			if r.Command == "" {
				continue
			}
			refused := p.Judge(tool(r.Command), guard.Place{Dir: "/w"}).Refused()
			if told := strings.Contains(text, "refused before it runs") && strings.Contains(withheld(text), "`"+r.Command+"`"); told != refused {
				t.Errorf("%+v: %s: refused %v, told %v", c, r.Command, refused, told)
			}
		}
		if refused := p.Judge(web, guard.Place{}).Refused(); refused != strings.Contains(withheld(text), "the web tools") {
			t.Errorf("%+v: web refused %v", c, refused)
		}
	}
}

// withheld is the line that says what is denied.
func withheld(text string) string {
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "- Withheld") {
			return line
		}
	}
	return ""
}

var web = agent.Tool{Name: "WebSearch"}

func tool(command string) agent.Tool { return agent.Tool{Name: "Bash", Command: command} }
