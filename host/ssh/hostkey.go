package ssh

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strings"

	"github.com/skeema/knownhosts"
	"golang.org/x/crypto/ssh"
	xknownhosts "golang.org/x/crypto/ssh/knownhosts"

	"github.com/rein-run/rein/internal/shell"
)

// Errors about the key of a host, for errors.Is.
var (
	// ErrUnknownHost: the key of the host is in no known_hosts file. Nobody is
	// there to be asked, so it is refused: an agent's prompt and variables would
	// go to whoever answers.
	ErrUnknownHost = errors.New("the host's key is not known")
	// ErrHostKey: the host has another key than the one that is known, or one
	// that was revoked.
	ErrHostKey = errors.New("THE HOST'S KEY IS NOT THE ONE THAT IS KNOWN")
)

// UnknownHostError says how to make a host known. It matches ErrUnknownHost.
type UnknownHostError struct {
	Host        string // as known_hosts names it
	Fingerprint string // SHA256:…
	Line        string // for a known_hosts file
	File        string // the first that would be read
}

func (e *UnknownHostError) Error() string {
	_, key, _ := strings.Cut(e.Line, " ")
	typ, _, _ := strings.Cut(key, " ")
	return fmt.Sprintf("%v: %s shows %s %s: compare that with what its owner says, and then: echo %s >> %s",
		ErrUnknownHost, e.Host, typ, e.Fingerprint, shell.Quote(e.Line), shell.Quote(e.File))
}

// Is matches ErrUnknownHost.
func (e *UnknownHostError) Is(target error) bool { return target == ErrUnknownHost }

// hostKeys makes the callback that judges the key of a host, and the algorithms
// to ask for: those of the keys that are known, or a server with several keys
// would show one that is not.
func hostKeys(s *settings) (ssh.HostKeyCallback, []string, error) {
	var there []string
	for _, name := range s.knownHosts {
		if fi, err := os.Stat(name); err == nil && fi.Mode().IsRegular() {
			there = append(there, name)
		}
	}
	db, err := knownhosts.NewDB(there...)
	if err != nil {
		return nil, nil, err
	}
	addr := s.addr()
	if s.keyAlias != "" {
		addr = joinHostPort(s.keyAlias, "22") // sshconnect.c: an alias has no port
	}
	check := db.HostKeyCallback()
	callback := func(_ string, _ net.Addr, key ssh.PublicKey) error {
		// The address of the peer is no name of the host: behind a jump host it
		// is 0.0.0.0.
		err := check(addr, &net.TCPAddr{IP: net.IPv4zero, Port: 22}, key)
		return s.judge(addr, key, err)
	}
	algorithms := db.HostKeyAlgorithms(addr)
	if len(algorithms) == 0 {
		// A host of which nothing is known is asked for a plain key: that is what
		// a line of known_hosts can be made of, and a certificate is not.
		for _, a := range ssh.SupportedAlgorithms().HostKeys {
			if !strings.Contains(a, "-cert-") {
				algorithms = append(algorithms, a)
			}
		}
	}
	return callback, algorithms, nil
}

func (s *settings) judge(addr string, key ssh.PublicKey, err error) error {
	var revoked *xknownhosts.RevokedError
	var known *xknownhosts.KeyError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &revoked):
		return fmt.Errorf("%w: %s was revoked (%s:%d)", ErrHostKey, ssh.FingerprintSHA256(key), revoked.Revoked.Filename, revoked.Revoked.Line)
	case errors.As(err, &known) && len(known.Want) > 0:
		w := known.Want[0]
		return fmt.Errorf("%w: %s shows %s %s, %s:%d has another; somebody may be in between. If the host was set up anew, its owner can tell the fingerprint: remove the line with ssh-keygen -R %s -f %s",
			ErrHostKey, knownhosts.Normalize(addr), key.Type(), ssh.FingerprintSHA256(key), w.Filename, w.Line,
			shell.Quote(knownhosts.Normalize(addr)), shell.Quote(w.Filename))
	case errors.As(err, &known):
		e := &UnknownHostError{
			Host: knownhosts.Normalize(addr), Fingerprint: ssh.FingerprintSHA256(key),
			Line: knownhosts.Line([]string{addr}, key), File: "~/.ssh/known_hosts",
		}
		if len(s.knownHosts) > 0 {
			e.File = s.knownHosts[0]
		}
		return e
	}
	// A certificate that is not good: expired, for another name, not of a host.
	return fmt.Errorf("%w: %w", ErrHostKey, err)
}

func joinHostPort(host, port string) string { return net.JoinHostPort(host, port) }
