// Package block makes git and the shell refuse what a run may not do, in every
// shell that the agent opens: hooks and push URLs that come through the
// environment, and shims in front of the PATH.
//
// It is a speed bump with a clear message, not a wall: a command that drops its
// environment gets past it (env -i git commit), and so does what moves HEAD
// without a hook (git checkout BRANCH), a push into the repository from a clone
// of it, and a push to a remote by a path that is relative or does not end in
// ".git" where no hook is asked (git push --no-verify, or from a clone). These
// are found by the check after the run. What it is scoped to matters as much: an
// agent's work includes tests that commit, stash and push in repositories of
// their own, and there nothing changes.
package block

import (
	_ "embed"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/rein-run/rein/host/driver"
	"github.com/rein-run/rein/internal/shell"
)

// Options say what is refused, and where.
type Options struct {
	// Dir is where the files will stand, absolute, where the run runs.
	Dir string
	// Repo is what is protected; nil when the run is in no repository.
	Repo *Repo
	// Branch may move: "refs/heads/x", the run's own branch when commits are
	// granted; "" for none.
	Branch string
	// Denied are the refused commands as words: "gh pr create". Those of git are
	// not read here, and the "api" of gh and its kin means what writes.
	Denied []string
	// Forge says that some command of a forge was granted: its login stays.
	Forge bool
	// Keep are variables that stay although they are credentials: what the
	// caller gave to the run by name, and what its agent logs in with.
	Keep []string
	// Env is what the agent's command would see without the block.
	Env driver.Env
}

// Repo is the protected repository, as git told it where the run runs.
type Repo struct {
	CommonDir string   // absolute
	Trees     []string // its working trees, absolute
	URLs      []string // of its remotes, to fetch from and to push to
	// HooksPath is core.hooksPath of the user, the machine or the environment, ""
	// when unset: ours wins over them, and their hooks still have to run.
	HooksPath string
}

// Set is what blocks: files to be placed in Options.Dir, and the environment
// that points to them.
type Set struct {
	Env   driver.Env
	Unset []string
	Files []driver.File
}

// program places one script under all names at once: a link costs a start less
// than a copy.
func (s *Set) program(name, script, folder string, names []string) {
	s.Files = append(s.Files, driver.File{Name: name, Data: []byte(script), Program: true})
	for _, n := range names {
		s.Files = append(s.Files, driver.File{Name: folder + "/" + n, Link: name})
	}
}

//go:embed hook.sh
var hookScript string

//go:embed shim.sh
var shimScript string

// hooks are the names under which git is offered the script. Those of
// receive-pack are not among them: it runs without the environment of who
// pushes. fsmonitor is named by another key, and a push-to-checkout that exists
// changes what a push does. post-index-change would be started at every write
// of the index.
var hooks = []string{
	"reference-transaction", "pre-push",
	"applypatch-msg", "pre-applypatch", "post-applypatch",
	"pre-commit", "pre-merge-commit", "prepare-commit-msg", "commit-msg", "post-commit",
	"pre-rebase", "post-rewrite", "post-checkout", "post-merge", "pre-auto-gc", "sendemail-validate",
}

// Refused is the scheme that pushes are turned to: git has no helper of that
// name, and says it.
const Refused = "rein-refused-push"

// Make says what is to be placed and set.
func Make(o Options) Set {
	s := Set{Env: driver.Env{}}
	keys := config{}
	if o.Repo != nil {
		dir := path.Join(o.Dir, "hooks")
		s.program("hook", hook(o, gitCount(o.Env)), "hooks", hooks)
		keys.add("core.hooksPath", dir)
		for _, url := range targets(o.Repo) {
			// The longest prefix wins, and an equal one of the user's own does
			// not: git takes the first of equal length, and the environment is
			// read last. What slips through meets pre-push.
			keys.add("url."+Refused+"::.pushInsteadOf", url)
		}
	}
	// An empty value resets the list of helpers.
	keys.add("credential.helper", "")
	// git 2.39 asks the hook about each reference that it packs: "git gc" does
	// without.
	keys.add("gc.packRefs", "false")
	maps.Copy(s.Env, keys.env(gitCount(o.Env)))
	s.credentials(o)
	s.shims(o)
	return s
}

// targets are the URLs of the remotes that pushes are turned away from by name.
//
// git compares beginnings: what is turned away takes all with it that begins
// alike. So a directory is no target (/w/ev would take /w/ev/r.git and
// /w/evother.git, which are a test's own), and a relative path is none
// ("../r.git" is another repository in every directory).
func targets(r *Repo) []string {
	var all []string
	for _, u := range r.URLs {
		if whole(u) && !slices.Contains(all, u) {
			all = append(all, u)
		}
	}
	return all
}

// whole says that a URL names one repository wherever it is used, and is
// unlikely to be the beginning of another one's.
func whole(url string) bool {
	if rest, ok := strings.CutPrefix(url, "file://"); ok {
		url = rest
	} else if at := strings.IndexByte(url, ':'); at > 0 && !strings.Contains(url[:at], "/") {
		return true // https://host/path, host:path
	}
	return path.IsAbs(url) && strings.HasSuffix(url, ".git")
}

// config is git configuration for the environment.
type config [][2]string

func (c *config) add(key, value string) { *c = append(*c, [2]string{key, value}) }

// env puts the keys behind the n that are there already: they are the user's
// (CI sets safe.directory so).
func (c config) env(n int) driver.Env {
	env := driver.Env{"GIT_CONFIG_COUNT": strconv.Itoa(n + len(c))}
	for i, kv := range c {
		env[fmt.Sprintf("GIT_CONFIG_KEY_%d", n+i)] = kv[0]
		env[fmt.Sprintf("GIT_CONFIG_VALUE_%d", n+i)] = kv[1]
	}
	return env
}

// gitCount is how many keys the environment holds. git refuses to run with a
// count that is no number, and so it is left to do that.
func gitCount(env driver.Env) int {
	n, err := strconv.Atoi(env["GIT_CONFIG_COUNT"])
	if err != nil || n < 0 {
		return 0
	}
	return n
}

// hook is the script with what it has to know.
func hook(o Options, count int) string {
	return strings.NewReplacer(
		"@REPO@", shell.Quote(o.Repo.CommonDir),
		"@BRANCH@", shell.Quote(o.Branch),
		"@HOOKS@", shell.Quote(o.Repo.HooksPath),
		"@COUNT@", strconv.Itoa(count),
	).Replace(hookScript)
}

// Tokens are the variables that let a program act on a forge, a registry or a
// cloud in the user's name.
func Tokens() []string {
	return []string{
		"GH_TOKEN", "GITHUB_TOKEN", "GH_ENTERPRISE_TOKEN", "GITHUB_ENTERPRISE_TOKEN", "GITHUB_PAT", "HOMEBREW_GITHUB_API_TOKEN",
		"GITLAB_TOKEN", "GITLAB_ACCESS_TOKEN", "CI_JOB_TOKEN", "GITEA_TOKEN", "GITEA_SERVER_TOKEN", "FORGEJO_TOKEN", "BITBUCKET_TOKEN",
		"NPM_TOKEN", "NODE_AUTH_TOKEN", "PYPI_TOKEN", "TWINE_PASSWORD", "CARGO_REGISTRY_TOKEN", "GEM_HOST_API_KEY", "HEX_API_KEY",
		"DOCKER_PASSWORD", "DOCKER_AUTH_CONFIG",
		"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_WEB_IDENTITY_TOKEN_FILE",
		"GOOGLE_APPLICATION_CREDENTIALS", "CLOUDSDK_AUTH_ACCESS_TOKEN", "GOOGLE_OAUTH_ACCESS_TOKEN",
		"AZURE_CLIENT_SECRET", "ARM_CLIENT_SECRET", "AZURE_DEVOPS_EXT_PAT", "SYSTEM_ACCESSTOKEN",
		"DIGITALOCEAN_ACCESS_TOKEN", "CLOUDFLARE_API_TOKEN", "FLY_API_TOKEN", "HEROKU_API_KEY", "VERCEL_TOKEN", "NETLIFY_AUTH_TOKEN",
		"VAULT_TOKEN",
	}
}

// credentials takes away what git and the programs of the forges would log in
// with.
func (s *Set) credentials(o Options) {
	s.Env["GIT_TERMINAL_PROMPT"] = "0"
	s.Unset = []string{"SSH_AUTH_SOCK", "SSH_AGENT_PID", "GIT_ASKPASS", "SSH_ASKPASS"}
	s.Unset = append(s.Unset, Tokens()...)
	if !o.Forge {
		// A login of gh, glab and hub stands in a file or leads from there to a
		// keyring: they are shown an empty directory. tea has no variable for its.
		s.Env["GH_CONFIG_DIR"] = path.Join(o.Dir, "none")
		s.Env["GLAB_CONFIG_DIR"] = path.Join(o.Dir, "none")
		s.Env["HUB_CONFIG"] = path.Join(o.Dir, "none", "hub")
	} else {
		s.Unset = slices.DeleteFunc(s.Unset, func(name string) bool {
			return slices.ContainsFunc([]string{"GH_", "GITHUB_", "GITLAB_", "GITEA_"}, func(p string) bool { return strings.HasPrefix(name, p) })
		})
	}
	s.Unset = slices.DeleteFunc(s.Unset, func(name string) bool { return slices.Contains(o.Keep, name) })
}

// shims are programs in front of the PATH that refuse the denied commands of
// the program whose name they have, and pass all else on.
func (s *Set) shims(o Options) {
	denied := map[string][]string{}
	for _, words := range o.Denied {
		name, rest, ok := strings.Cut(words, " ")
		if ok && name != "git" && plain(name) {
			denied[name] = append(denied[name], rest)
		}
	}
	if len(denied) == 0 {
		return
	}
	dir := path.Join(o.Dir, "shims")
	names := slices.Sorted(maps.Keys(denied))
	var lists strings.Builder
	for _, name := range names {
		fmt.Fprintf(&lists, "%s) denied=%s ;;\n", name, shell.Quote(strings.Join(denied[name], "\n")))
	}
	script := strings.NewReplacer("@DIR@", shell.Quote(dir), "@DENIED@", strings.TrimSuffix(lists.String(), "\n")).Replace(shimScript)
	s.program("shim", script, "shims", names)
	if p := o.Env["PATH"]; p != "" {
		s.Env["PATH"] = dir + ":" + p
	}
}

// plain says that a name is a file name without surprises.
func plain(s string) bool {
	return s != "" && strings.IndexFunc(s, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '-' || r == '_')
	}) < 0
}
