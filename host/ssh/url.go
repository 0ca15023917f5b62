package ssh

import (
	"errors"
	"net"
	"strconv"
	"strings"
)

// target is what a URL names, before the user's configuration has its say.
type target struct {
	user, host, port string // user and port may be ""
	dir              string // absolute, or "~/…", or ""
}

var (
	errForm     = errors.New("write ssh://[user@]host[:port][/dir], or /~/dir for one in the home directory")
	errPassword = errors.New("a password has no place in a URL, where ps and logs show it: use a key, and ssh-agent for one with a passphrase")
)

// parse reads ssh://[user@]host[:port][/dir]. No error repeats any of it: what
// is in front of the @ may be a password. (That is why it is not url.Parse.)
func parse(url string) (target, error) {
	rest, ok := strings.CutPrefix(url, "ssh://")
	if !ok {
		return target{}, errForm
	}
	var t target
	rest, dir, found := strings.Cut(rest, "/")
	if found {
		t.dir = "/" + dir
	}
	if d, ok := strings.CutPrefix(t.dir, "/~"); ok && (d == "" || d[0] == '/') {
		t.dir = "~" + d
	}
	if t.dir == "/" && rest != "" {
		t.dir = "" // ssh://host/ is not the root directory to anybody who writes it
	}
	return t, t.authority(rest)
}

// authority reads [user@]host[:port].
func (t *target) authority(s string) error {
	if i := strings.LastIndexByte(s, '@'); i >= 0 {
		if t.user, s = s[:i], s[i+1:]; t.user == "" {
			return errForm
		}
		if strings.ContainsRune(t.user, ':') {
			return errPassword
		}
	}
	switch {
	case strings.HasPrefix(s, "["): // IPv6
		host, port, err := net.SplitHostPort(s)
		if err != nil {
			host, ok := strings.CutSuffix(s[1:], "]")
			if !ok {
				return errForm
			}
			t.host = host
			break
		}
		t.host, t.port = host, port
	case strings.Count(s, ":") == 1:
		t.host, t.port, _ = strings.Cut(s, ":")
		if t.port == "" {
			return errForm
		}
	default:
		t.host = s
	}
	if n, err := strconv.ParseUint(t.port, 10, 16); t.port != "" && (err != nil || n == 0) {
		return errForm
	}
	// A name that begins with a dash would be an option to ssh-keyscan.
	if t.host == "" || t.host[0] == '-' || strings.ContainsFunc(t.user+t.host, func(r rune) bool {
		return r <= ' ' || r == 0x7f || strings.ContainsRune(`'"$`+"`"+`\;&|<>()?#/`, r)
	}) {
		return errForm
	}
	return nil
}
