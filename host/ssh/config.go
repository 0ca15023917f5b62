package ssh

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kevinburke/ssh_config"
)

// settings are what is known of one host from the URL, the user's
// configuration and the system's, in that order.
type settings struct {
	user, host, port string
	alias            string // what the user calls it

	identities     []string // files, the user's own before the defaults
	ownIdentities  bool     // the user named them
	identitiesOnly bool
	agent          string // socket; "" for none

	knownHosts []string // files
	keyAlias   string   // the name in known_hosts, "" for host

	jumps          []string // proxies, the nearest to here first
	proxyCommand   string
	connectTimeout time.Duration
	alive          time.Duration // between keepalives; 0: none
	aliveMax       int           // unanswered ones
}

func (s *settings) addr() string { return joinHostPort(s.host, s.port) }

// files are the configurations that are read, the strongest first.
type files struct {
	configs []*ssh_config.Config
	home    string
}

// readConfig reads own, "" for ~/.ssh/config, and the system's. One that cannot
// be understood is an error: half of it may be the half that protects.
func readConfig(own string) (*files, error) {
	home, err := os.UserHomeDir()
	if err != nil {
		return nil, err
	}
	f := &files{home: home}
	names := []string{own, "/etc/ssh/ssh_config"}
	if own == "" {
		names[0] = filepath.Join(home, ".ssh", "config")
	}
	for i, name := range names {
		b, err := os.ReadFile(name)
		if errors.Is(err, fs.ErrNotExist) && (i > 0 || own == "") {
			continue
		}
		if err != nil {
			return nil, err
		}
		c, err := ssh_config.DecodeBytes(b)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		f.configs = append(f.configs, c)
	}
	return f, nil
}

func (f *files) get(alias, key string) (string, error) {
	for _, c := range f.configs {
		if v, err := c.Get(alias, key); err != nil || v != "" {
			return unquote(v), err
		}
	}
	return "", nil
}

func (f *files) all(alias, key string) (out []string, err error) {
	for _, c := range f.configs {
		vs, err := c.GetAll(alias, key)
		if err != nil {
			return nil, err
		}
		out = append(out, vs...)
	}
	return out, nil
}

func unquote(s string) string {
	if len(s) >= 2 && s[0] == '"' && s[len(s)-1] == '"' {
		return s[1 : len(s)-1]
	}
	return s
}

// fields splits a list of file names, which may be in quotes.
func fields(s string) []string {
	quoted := false
	return slices.DeleteFunc(strings.FieldsFunc(s, func(r rune) bool {
		if r == '"' {
			quoted = !quoted
			return true
		}
		return (r == ' ' || r == '\t') && !quoted
	}), func(s string) bool { return s == "" })
}

// resolve settles everything about a host. ssh_config(5) of OpenSSH 9.2 is the
// authority for the words and the defaults.
func (f *files) resolve(t target) (*settings, error) {
	s := &settings{user: t.user, port: t.port, alias: t.host}
	var errs []error
	get := func(key string) string {
		v, err := f.get(t.host, key)
		errs = append(errs, err)
		return v
	}
	or := func(v *string, alternatives ...string) {
		for _, a := range alternatives {
			if *v == "" {
				*v = a
			}
		}
	}
	or(&s.port, get("Port"), "22")
	or(&s.user, get("User"))
	if s.user == "" {
		me, err := user.Current()
		if err != nil {
			return nil, fmt.Errorf("the name of the user is not known, write ssh://user@host: %w", err)
		}
		s.user = me.Username
	}
	s.host = get("HostName")
	or(&s.host, t.host)
	expand := func(v string) string {
		v, err := f.expand(v, s)
		errs = append(errs, err)
		return v
	}
	s.host = expand(s.host)
	s.keyAlias = get("HostKeyAlias")

	ids, err := f.all(t.host, "IdentityFile")
	errs = append(errs, err)
	for _, id := range ids {
		if id = unquote(id); !strings.EqualFold(id, "none") {
			s.identities = append(s.identities, expand(id))
		}
	}
	s.identitiesOnly = isYes(get("IdentitiesOnly"))
	if s.ownIdentities = len(ids) > 0; !s.ownIdentities {
		for _, name := range []string{"id_rsa", "id_ecdsa", "id_ed25519"} {
			s.identities = append(s.identities, filepath.Join(f.home, ".ssh", name))
		}
	}
	switch a := get("IdentityAgent"); {
	case a == "" || a == "SSH_AUTH_SOCK":
		s.agent = os.Getenv("SSH_AUTH_SOCK")
	case strings.EqualFold(a, "none"):
	case a[0] == '$':
		s.agent = os.Getenv(strings.Trim(a[1:], "{}"))
	default:
		s.agent = expand(a)
	}

	own, global := get("UserKnownHostsFile"), get("GlobalKnownHostsFile")
	or(&own, "~/.ssh/known_hosts ~/.ssh/known_hosts2")
	or(&global, "/etc/ssh/ssh_known_hosts /etc/ssh/ssh_known_hosts2")
	for _, name := range append(fields(own), fields(global)...) {
		if !strings.EqualFold(name, "none") {
			s.knownHosts = append(s.knownHosts, expand(name))
		}
	}

	// Which of the two comes first in the file decides, and this reader does not
	// say which did.
	if s.proxyCommand = get("ProxyCommand"); strings.EqualFold(s.proxyCommand, "none") {
		s.proxyCommand = ""
	}
	if jump := get("ProxyJump"); jump != "" && !strings.EqualFold(jump, "none") {
		s.jumps, s.proxyCommand = strings.Split(jump, ","), ""
	}
	if s.proxyCommand != "" {
		return nil, fmt.Errorf("ProxyCommand for %s is not supported: write it as ProxyJump", t.host)
	}

	s.connectTimeout = 20 * time.Second
	seconds := func(key string, d *time.Duration) {
		if v := get(key); v != "" && !strings.EqualFold(v, "none") {
			n, err := strconv.Atoi(v)
			if err != nil || n < 0 {
				errs = append(errs, fmt.Errorf("%s %s: not a number of seconds", key, v))
			}
			*d = time.Duration(n) * time.Second
		}
	}
	seconds("ConnectTimeout", &s.connectTimeout)
	if s.connectTimeout == 0 {
		s.connectTimeout = 20 * time.Second
	}
	// OpenSSH sends none by default, for a person will see that a terminal is
	// dead. Here nobody looks.
	s.alive, s.aliveMax = 15*time.Second, 3
	seconds("ServerAliveInterval", &s.alive)
	if s.alive == 0 {
		s.alive = 15 * time.Second
	}
	if v := get("ServerAliveCountMax"); v != "" {
		n, err := strconv.Atoi(v)
		if err != nil || n < 1 {
			errs = append(errs, fmt.Errorf("ServerAliveCountMax %s: not a number from 1", v))
		}
		s.aliveMax = n
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("the configuration of ssh for %s: %w", t.host, err)
	}
	return s, nil
}

func isYes(v string) bool { return strings.EqualFold(v, "yes") || strings.EqualFold(v, "true") }

// expand replaces ~/ and the tokens that ssh_config(5) allows in names.
func (f *files) expand(v string, s *settings) (string, error) {
	if v == "~" || strings.HasPrefix(v, "~/") {
		v = f.home + v[1:]
	}
	if !strings.ContainsRune(v, '%') {
		return v, nil
	}
	host := s.host
	if host == v { // HostName itself: %h is what the user typed
		host = s.alias
	}
	var b strings.Builder
	for i := 0; i < len(v); i++ {
		if v[i] != '%' {
			b.WriteByte(v[i])
			continue
		}
		i++
		if i == len(v) {
			return "", fmt.Errorf("%s: a single %% at the end", v)
		}
		switch v[i] {
		case '%':
			b.WriteByte('%')
		case 'd':
			b.WriteString(f.home)
		case 'h':
			b.WriteString(host)
		case 'n':
			b.WriteString(s.alias)
		case 'p':
			b.WriteString(s.port)
		case 'r':
			b.WriteString(s.user)
		case 'u':
			if me, err := user.Current(); err == nil {
				b.WriteString(me.Username)
			}
		default:
			return "", fmt.Errorf("%s: the token %%%c is not supported", v, v[i])
		}
	}
	return b.String(), nil
}
