package git

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// LsRemoteOptions say with which configuration a remote is asked.
type LsRemoteOptions struct {
	// GitDir is the repository whose configuration holds. "" is none: what the
	// system and the user have configured is used, and nothing that an agent
	// could have written into a repository.
	GitDir string
	// SSH is the user's own core.sshCommand; "" is ssh. Where it is OpenSSH it
	// is told to ask nobody and not to wait long.
	SSH string
}

// LsRemote lists the references of a remote: url, or a name that GitDir's
// configuration knows. run must have RemoteEnv. It is bounded by ctx; errors hold
// no password or token of the URL.
//
// It runs in the root directory, so that nothing relative in a configuration
// (an ssh command "./x") means a file of the repository.
func LsRemote(ctx context.Context, run Runner, url string, o *LsRemoteOptions) ([]Ref, error) {
	if o == nil {
		o = &LsRemoteOptions{}
	}
	if strings.HasPrefix(url, "-") {
		return nil, fmt.Errorf("git ls-remote: %q is no URL", url)
	}
	where := nowhere
	if o.GitDir != "" {
		where = []string{"--git-dir=" + o.GitDir}
	}
	opts := append(slices.Clone(where),
		"-c", "credential.interactive=never",
		"-c", "http.lowSpeedLimit=1", "-c", "http.lowSpeedTime=10")
	if ssh, ok := quiet(o.SSH); ok {
		opts = append(opts, "-c", "core.sshCommand="+ssh)
	}
	out, err := run.gitWith(ctx, root, opts, "ls-remote", "--quiet", "--refs", "--", url)
	if err != nil {
		if exit, ok := errors.AsType[*ExitError](err); ok {
			return nil, &ExitError{Args: []string{"ls-remote"}, Code: exit.Code, Stderr: reason(exit.Stderr)}
		}
		return nil, err
	}
	var refs []Ref
	for line := range strings.Lines(string(out)) {
		oid, name, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		if !ok {
			return nil, errors.New("git ls-remote: cannot be understood")
		}
		refs = append(refs, Ref{Name: name, OID: oid})
	}
	slices.SortFunc(refs, func(a, b Ref) int { return strings.Compare(a.Name, b.Name) })
	return refs, nil
}

// quiet adds to an OpenSSH command that it must not ask and not wait long.
func quiet(ssh string) (string, bool) {
	if ssh == "" {
		ssh = "ssh"
	}
	prog, _, _ := strings.Cut(ssh, " ")
	prog = strings.TrimSuffix(prog[strings.LastIndexAny(prog, `/\`)+1:], ".exe")
	return ssh + " -oBatchMode=yes -oConnectTimeout=8", prog == "ssh"
}

// reason is the line of a transport's complaint that says most, in one line.
func reason(stderr string) string {
	var last string
	for line := range strings.Lines(stderr) {
		line = strings.TrimSpace(line)
		switch {
		case line == "" || strings.HasPrefix(line, "warning:") || strings.HasPrefix(line, "hint:"):
		case strings.HasPrefix(line, "fatal: Could not read from remote"), strings.HasPrefix(line, "Please make sure"), strings.HasPrefix(line, "and the repository exists"):
			// ssh has said it better before
			if last == "" {
				last = line
			}
		default:
			last = line
		}
	}
	return Anonymous(last)
}

var userinfo = regexp.MustCompile(`://[^/\s'"]*@`)

// Anonymous is s without the user and the password of the URLs in it.
func Anonymous(s string) string { return userinfo.ReplaceAllString(s, "://") }
