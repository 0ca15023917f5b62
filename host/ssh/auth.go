package ssh

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"
)

// ErrAuth: the server takes none of the keys.
var ErrAuth = errors.New("login refused")

// AuthError says what was offered, by the names of files and fingerprints. It
// matches ErrAuth.
type AuthError struct {
	User, Addr string
	Tried      []string
	Unusable   []string // and why
}

func (e *AuthError) Error() string {
	s := fmt.Sprintf("%v: %s takes no key for %s", ErrAuth, e.Addr, e.User)
	if len(e.Tried) > 0 {
		s += "; offered: " + strings.Join(e.Tried, ", ")
	} else {
		s += "; there was none to offer: name one with IdentityFile in ~/.ssh/config, or load it with ssh-add"
	}
	if len(e.Unusable) > 0 {
		s += "; not usable: " + strings.Join(e.Unusable, ", ")
	}
	return s
}

// Is matches ErrAuth.
func (e *AuthError) Is(target error) bool { return target == ErrAuth }

// keyring is what can be offered to one server.
type keyring struct {
	signers  []ssh.Signer
	tried    []string // names, one for each signer
	unusable []string
	conn     net.Conn // to ssh-agent, which signs
}

func (k *keyring) close() {
	if k.conn != nil {
		k.conn.Close()
	}
}

func (k *keyring) offer(s ssh.Signer, name string) {
	k.signers, k.tried = append(k.signers, s), append(k.tried, name)
}

// agentWait bounds what ssh-agent may take for all its answers: one that asks
// somebody to touch a key must not hold a run up for ever.
const agentWait = 30 * time.Second

// keys collects the user's keys in the order in which OpenSSH offers them: a
// server gives up after six (MaxAuthTries). Passwords are never asked for.
func keys(s *settings) *keyring {
	k := &keyring{}
	var held []ssh.Signer
	if s.agent != "" {
		conn, err := net.DialTimeout("unix", s.agent, 5*time.Second)
		if err == nil {
			_ = conn.SetDeadline(time.Now().Add(agentWait))
			k.conn = conn
			held, err = agent.NewClient(conn).Signers()
		}
		if err != nil {
			k.unusable = append(k.unusable, "ssh-agent ("+err.Error()+")")
		}
	}
	used := make([]bool, len(held))
	fromAgent := func(pub ssh.PublicKey, name string) bool {
		for i, h := range held {
			if !used[i] && bytes.Equal(h.PublicKey().Marshal(), pub.Marshal()) {
				used[i] = true
				k.offer(h, name+" (ssh-agent)")
				return true
			}
		}
		return false
	}
	rest := func() {
		for i, h := range held {
			if !used[i] && !s.identitiesOnly {
				used[i] = true
				k.offer(h, ssh.FingerprintSHA256(h.PublicKey())+" (ssh-agent)")
			}
		}
	}
	if !s.ownIdentities {
		rest() // keys that somebody has loaded are likelier than those that lie around
	}
	for _, file := range s.identities {
		k.identity(file, s.ownIdentities, fromAgent)
	}
	rest()
	return k
}

// identity offers the key in a file.
func (k *keyring) identity(file string, named bool, fromAgent func(ssh.PublicKey, string) bool) {
	b, err := os.ReadFile(file)
	if err != nil {
		// The private half may be in the agent alone.
		if pub := publicHalf(file); pub != nil && fromAgent(pub, file) {
			return
		}
		if named {
			k.unusable = append(k.unusable, file+" ("+reason(err)+")")
		}
		return
	}
	signer, err := ssh.ParsePrivateKey(b)
	var locked *ssh.PassphraseMissingError
	switch {
	case err == nil:
	case errors.As(err, &locked):
		pub := locked.PublicKey
		if pub == nil {
			pub = publicHalf(file)
		}
		if pub != nil && fromAgent(pub, file) {
			return
		}
		k.unusable = append(k.unusable, file+" (has a passphrase: load it with ssh-add "+file+")")
		return
	default:
		if pub := publicHalf(file); pub != nil && fromAgent(pub, file) {
			return // a kind that only the agent can use, such as one on a token
		}
		k.unusable = append(k.unusable, file+" (no key that can be read)")
		return
	}
	if cert := certificate(file, signer); cert != nil {
		k.offer(cert, file+"-cert.pub")
	}
	if !fromAgent(signer.PublicKey(), file) {
		k.offer(signer, file)
	}
}

func publicHalf(file string) ssh.PublicKey {
	b, err := os.ReadFile(strings.TrimSuffix(file, ".pub") + ".pub")
	if err != nil {
		return nil
	}
	pub, _, _, _, err := ssh.ParseAuthorizedKey(b)
	if err != nil {
		return nil
	}
	return pub
}

// certificate is the one beside the key, as ssh-keygen -s writes it.
func certificate(file string, signer ssh.Signer) ssh.Signer {
	b, err := os.ReadFile(file + "-cert.pub")
	if err != nil {
		return nil
	}
	pub, _, _, _, err := ssh.ParseAuthorizedKey(b)
	cert, ok := pub.(*ssh.Certificate)
	if err != nil || !ok {
		return nil
	}
	s, err := ssh.NewCertSigner(cert, signer)
	if err != nil {
		return nil
	}
	return s
}

// reason is the error without the path.
func reason(err error) string {
	if pe, ok := errors.AsType[*os.PathError](err); ok {
		return pe.Err.Error()
	}
	return err.Error()
}
