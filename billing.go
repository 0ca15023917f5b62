package rein

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rein-run/rein/agent"
	"github.com/rein-run/rein/host/driver"
	"github.com/rein-run/rein/internal/disk"
)

// Who pays for a run: Report.Billing, and what Task.Billing may ask for. A key is
// BillingKey and the name of its variable.
const (
	BillingSubscription = "subscription"
	BillingKey          = "key:"
	BillingUnknown      = "unknown"
)

// credentials are the variables that the CLI will find a credential in: the
// first is the one that it uses. Those for a cloud come first, because they count
// only where the CLI was told to use that cloud.
func credentials(c agent.Capabilities, env driver.Env) (found []string) {
	add := func(name string) {
		if env[name] != "" && !slices.Contains(found, name) {
			found = append(found, name)
		}
	}
	for _, when := range slices.Sorted(maps.Keys(c.CredentialsIf)) {
		if v := env[when]; v != "" && v != "0" && v != "false" {
			for _, name := range c.CredentialsIf[when] {
				add(name)
			}
		}
	}
	for _, name := range c.Credentials {
		add(name)
	}
	return found
}

// payer says who pays as far as the environment tells.
func payer(c agent.Capabilities, found []string) string {
	for _, name := range found {
		switch {
		case slices.Contains(c.AfterLogin, name): // it may be logged in, which wins
		case slices.Contains(c.Subscriptions, name):
			return BillingSubscription
		default:
			return BillingKey + name
		}
	}
	return BillingUnknown
}

// checkBilling says which credential the CLI will use, and refuses what is not
// the one that the task wants.
func (p *prepared) checkBilling(ctx context.Context) error {
	env := maps.Clone(p.inherited())
	maps.Copy(env, p.spec.Env)
	for _, name := range p.spec.Unset {
		delete(env, name)
	}
	found := credentials(p.caps, env)
	p.billing = payer(p.caps, found)
	switch p.task.Billing {
	case "":
		return nil
	case BillingSubscription:
	default:
		return taskError("--billing", "there is %s, not %q", BillingSubscription, p.task.Billing)
	}
	key := func(name string) bool { return !slices.Contains(p.caps.Subscriptions, name) }
	if i := slices.IndexFunc(found, key); i >= 0 {
		return taskError("--billing", "%s is set, which %s may pay by: unset it, or leave --billing out", found[i], p.agent.Name())
	}
	for _, file := range p.caps.EnvFiles {
		if name := p.keyIn(file); name != "" && key(name) {
			return taskError("--billing", "%s has %s, which %s may pay by: take it out, or leave --billing out", file, name, p.agent.Name())
		}
	}
	if p.billing == BillingSubscription { // a token of one
		return nil
	}
	login := agent.AskLogin(ctx, p.host, p.agent, p.facts, p.spec.Env, p.spec.Unset)
	switch {
	case login.State == agent.LoggedOut:
		return taskError("--billing", "%s is not logged in: %s", p.agent.Name(), cmp.Or(login.Detail, "log in by its own means"))
	case login.Pays != BillingSubscription:
		return taskError("--billing", "%s does not say that a subscription pays (%s): leave --billing out", p.agent.Name(), cmp.Or(login.Pays, "it does not tell"))
	}
	p.billing = BillingSubscription
	return nil
}

// keyIn finds a credential in a file of variables that the CLI reads by itself.
// "~/" is the home directory, else it is below the directory of the run. Its
// values are looked at no further than whether there is one.
func (p *prepared) keyIn(file string) string {
	if !p.local {
		return ""
	}
	name := filepath.Join(p.task.Dir, file)
	if rest, ok := strings.CutPrefix(file, "~/"); ok {
		name = filepath.Join(p.facts.Home, rest)
	}
	b, err := disk.ReadFile(name, 1<<20)
	if errors.Is(err, fs.ErrNotExist) || err != nil {
		return ""
	}
	for lines := bufio.NewScanner(bytes.NewReader(b)); lines.Scan(); {
		k, v, ok := strings.Cut(strings.TrimPrefix(strings.TrimSpace(lines.Text()), "export "), "=")
		if k = strings.TrimSpace(k); ok && strings.Trim(v, ` "'`) != "" && slices.Contains(p.caps.Credentials, k) {
			return k
		}
	}
	return ""
}
