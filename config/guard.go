package config

import (
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"github.com/rein-run/rein/guard"
)

// flag is a key that is true or false. A project's file cannot set it: it lifts
// what holds for everybody's clones.
func flag(name string, field func(*Config) *bool) key {
	return key{
		name: name, user: true, bool: true,
		set: func(c *Config, v given) error {
			b, err := strconv.ParseBool(v.text)
			if err != nil || v.text != "true" && v.text != "false" {
				return v.errorf("%s is true or false, not %s", v.key, show(v.text))
			}
			*field(c) = b
			return nil
		},
		get: func(c *Config) string { return strconv.FormatBool(*field(c)) },
	}
}

// switchOn is a flag that a project may only say true of.
func switchOn(name string, field func(*Config) *bool) key {
	k := flag(name, field)
	set := k.set
	k.user = false
	k.set = func(c *Config, v given) error {
		if v.from.Source == Project && v.text == "false" {
			return v.errorf("%s: a project can switch it on, not off: remove this line", v.key)
		}
		return set(c, v)
	}
	return k
}

// several is a key that holds a list: in a file a list, in a variable words with
// commas between. They come together from all sources.
func several(name string, user bool, field func(*Config) *[]string) key {
	return key{
		name: name, user: user, many: true,
		set: func(c *Config, v given) error {
			s := strings.TrimSpace(v.text)
			if s == "" || strings.IndexFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f }) >= 0 {
				return v.errorf("%s: one of its values is empty or has a control character in it", v.key)
			}
			if !slices.Contains(*field(c), s) {
				*field(c) = append(*field(c), s)
			}
			return nil
		},
		get: func(c *Config) string { return strings.Join(*field(c), ", ") },
	}
}

// words puts each value of a list.
func (r *reader) words(k *key, n ast.Node, v given) error {
	all, err := v.list(n)
	for _, s := range all {
		v.text = s
		err = errors.Join(err, r.c.put(k, v))
	}
	return err
}

// rules reads the user's own rules: a list of mappings.
func (r *reader) rules(n ast.Node, v given) error {
	seq, ok := n.(*ast.SequenceNode)
	if !ok {
		return v.errorf("rules is a list: - {command: npm publish, level: deny, reason: …}")
	}
	var errs []error
	for _, x := range seq.Values {
		var rule guard.Rule
		fields := map[string]*string{"name": &rule.Name, "command": &rule.Command, "level": (*string)(&rule.Level), "reason": &rule.Reason}
		from := place(v.from, x.GetToken())
		err := r.each(x, from, "rules.", func(name string, value ast.Node, v given) error {
			field, ok := fields[name]
			if !ok {
				return v.errorf("unknown key %s%s", show(v.key), nearest(name, []string{"name", "command", "level", "reason"}))
			}
			if err := v.fill(value); err != nil {
				return err
			}
			*field = v.text
			return nil
		})
		// Judged where it stands, so that the message can say where.
		if err == nil {
			if _, bad := guard.New(guard.Config{Rules: []guard.Rule{rule}}); bad != nil {
				v := v
				v.from = from
				err = v.errorf("%v", bad)
			}
		}
		if err == nil {
			r.c.Guard.Rules = append(r.c.Guard.Rules, rule)
		}
		errs = append(errs, err)
	}
	r.c.remember("rules", v.from)
	return errors.Join(errs...)
}

// level changes the level of one rule.
func (r *reader) level(name string, value ast.Node, v given) error {
	if v.from.Source == Project {
		return v.refuse()
	}
	if err := v.fill(value); err != nil {
		return err
	}
	if r.c.Guard.Levels == nil {
		r.c.Guard.Levels = map[string]guard.Level{}
	}
	r.c.Guard.Levels[name] = guard.Level(v.text)
	r.c.remember(v.key, v.from)
	return nil
}
