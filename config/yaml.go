package config

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// reader reads the layers into one Config.
type reader struct {
	c        *Config
	agents   []string
	home     string
	userFile string
}

func (r *reader) given(text, key string, from Origin) given {
	return given{text: text, key: key, from: from, workingIn: r.c.workingIn, home: r.home, userFile: r.userFile}
}

// file reads one file into the Config.
func (r *reader) file(path string, from Source) error {
	b, err := read(path, from)
	if err != nil || b == nil {
		return err
	}
	return r.yaml(b, Origin{Source: from, Name: path})
}

// yaml reads one document. The tree is walked by hand and not decoded into a
// structure: every value needs its place, and a file that somebody else wrote
// must not get at anchors, aliases, tags and merge keys.
func (r *reader) yaml(b []byte, from Origin) error {
	// Editors on Windows write it; to the parser it is part of the first key.
	tree, err := parse(bytes.TrimPrefix(b, []byte("\xef\xbb\xbf")), from)
	if err != nil {
		return err
	}
	var errs []error
	for i, doc := range tree.Docs {
		if doc.Body == nil {
			continue
		}
		if i > 0 {
			return at(from, doc.Body.GetToken(), "", "holds more than one document")
		}
		err := r.each(doc.Body, from, "", func(name string, value ast.Node, v given) error {
			return r.key(name, value, v)
		})
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// maxNesting bounds the opening brackets of a file: the parser takes half a
// minute for 60,000 of them (goccy/go-yaml 1.19.2).
const maxNesting = 500

func parse(b []byte, from Origin) (tree *ast.File, err error) {
	if bytes.Count(b, []byte("["))+bytes.Count(b, []byte("{")) > maxNesting {
		return nil, &Error{Origin: from, Msg: fmt.Sprintf("holds more than %d brackets", maxNesting)}
	}
	defer func() { // the parser must not end the program because of a file
		if p := recover(); p != nil {
			tree, err = nil, &Error{Origin: from, Msg: "cannot be read as YAML"}
		}
	}()
	tree, err = parser.ParseBytes(b, 0, parser.AllowDuplicateMapKey())
	if err == nil {
		return tree, nil
	}
	if bad, ok := errors.AsType[*yaml.SyntaxError](err); ok {
		return nil, at(from, bad.Token, "", "not YAML: "+oneLine(bad.Message))
	}
	return nil, &Error{Origin: from, Msg: "not YAML: " + oneLine(err.Error())}
}

func oneLine(s string) string {
	s, _, _ = strings.Cut(s, "\n")
	s = show(s)
	return s[1 : len(s)-1]
}

func at(from Origin, t *token.Token, key, msg string) error {
	return &Error{Origin: place(from, t), Key: key, Msg: msg}
}

func place(from Origin, t *token.Token) Origin {
	if t != nil && t.Position != nil {
		from.Line, from.Column = t.Position.Line, t.Position.Column
	}
	return from
}

// each calls do for every entry of a mapping, with the place of its key.
func (r *reader) each(n ast.Node, from Origin, prefix string, do func(name string, value ast.Node, v given) error) error {
	var entries []*ast.MappingValueNode
	switch m := n.(type) {
	case *ast.MappingNode:
		entries = m.Values
	case *ast.MappingValueNode:
		entries = []*ast.MappingValueNode{m}
	case *ast.NullNode: // "labels:" with nothing below
		return nil
	default:
		return at(from, n.GetToken(), strings.TrimSuffix(prefix, "."), "names and values are expected here: name: value")
	}
	var errs []error
	seen := map[string]bool{}
	for _, e := range entries {
		if e.Key == nil || e.Value == nil {
			errs = append(errs, at(from, e.Start, "", "cannot be understood"))
			continue
		}
		v := r.given("", "", place(from, e.Key.GetToken()))
		name, ok := scalar(e.Key)
		if !ok {
			errs = append(errs, v.errorf("a name is expected here: anchors, aliases and tags are not read"))
			continue
		}
		v.key = prefix + name
		if seen[name] {
			errs = append(errs, v.errorf("%s is there twice", show(v.key)))
			continue
		}
		seen[name] = true
		errs = append(errs, do(name, e.Value, v))
	}
	return errors.Join(errs...)
}

// scalar is the text of a plain or quoted value.
func scalar(n ast.Node) (string, bool) {
	switch x := n.(type) {
	case *ast.StringNode:
		return x.Value, true
	case *ast.LiteralNode:
		return x.Value.Value, true
	case *ast.IntegerNode, *ast.FloatNode: // model: 4.1
		return n.GetToken().Value, true
	}
	return "", false
}

// fill puts the text of a value into v.
func (v *given) fill(n ast.Node) error {
	s, ok := scalar(n)
	if ok {
		v.text = s
		return nil
	}
	switch n.(type) {
	case *ast.NullNode:
		return v.errorf("%s has no value: remove it to have the default", show(v.key))
	case *ast.BoolNode:
		return v.errorf("%s is true or false here: put the word in quotes if it is meant", show(v.key))
	}
	return v.errorf("%s needs one plain value", show(v.key))
}

func (r *reader) key(name string, value ast.Node, v given) error {
	k := findKey(name)
	switch {
	case k == nil:
		return v.errorf("unknown key %s%s", show(name), nearest(name, keyNames()))
	case name == "labels":
		return r.each(value, v.from, "labels.", func(name string, value ast.Node, v given) error {
			if err := v.fill(value); err != nil {
				return err
			}
			return r.c.label(name, v)
		})
	case name == "agents":
		return r.each(value, v.from, "agents.", r.agent)
	case name == "prices":
		if v.from.Source == Project {
			return v.refuse() // it could make a budget of the user's worth nothing
		}
		return r.each(value, v.from, "prices.", r.price)
	case name == "levels":
		return r.each(value, v.from, "levels.", r.level)
	case name == "rules":
		return r.rules(value, v)
	case k.many:
		return r.words(k, value, v)
	case k.bool:
		if b, ok := value.(*ast.BoolNode); ok {
			v.text = b.GetToken().Value
			return r.c.put(k, v)
		}
	}
	if err := v.fill(value); err != nil {
		return err
	}
	return r.c.put(k, v)
}

var agentName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-z][a-z0-9_-]{0,31}$`) })

// agent reads one section below agents.
func (r *reader) agent(name string, value ast.Node, v given) error {
	switch {
	case r.agents != nil && !slices.Contains(r.agents, name):
		return v.errorf("unknown agent %s%s", show(name), nearest(name, r.agents))
	case !agentName().MatchString(name):
		return v.errorf("%s cannot be the name of an agent: small letters, digits, - and _", show(name))
	}
	a := r.c.Agents[name]
	err := r.each(value, v.from, "agents."+name+".", func(key string, value ast.Node, v given) (err error) {
		if v.from.Source == Project && (key == "path" || key == "args") {
			return v.refuse()
		}
		switch key {
		case "args":
			a.Args, err = v.list(value)
		case "path", "model", "effort":
			if err := v.fill(value); err != nil {
				return err
			}
			switch key {
			case "path":
				a.Path, err = v.executable()
			case "model":
				a.Model, err = v.word()
			case "effort":
				a.Effort, err = v.word()
			}
		default:
			return v.errorf("unknown key %s%s", show(v.key), nearest(key, []string{"path", "args", "model", "effort"}))
		}
		if err == nil {
			r.c.remember(v.key, v.from)
		}
		return err
	})
	if r.c.Agents == nil {
		r.c.Agents = map[string]AgentConfig{}
	}
	r.c.Agents[name] = a
	return err
}

// executable is the path of a program where the agent runs, which need not be
// this machine: nothing is resolved here.
func (v given) executable() (string, error) {
	p, err := v.word()
	if err == nil && strings.ContainsAny(p, `/\`) && p[0] != '/' && !(len(p) > 2 && p[1] == ':') {
		return "", v.errorf("%s: write a whole path, or a name that is looked up where the agent runs", v.key)
	}
	return p, err
}

func (v given) list(n ast.Node) ([]string, error) {
	seq, ok := n.(*ast.SequenceNode)
	if !ok {
		return nil, v.errorf("%s is a list: [\"one\", \"another\"]", show(v.key))
	}
	var all []string
	for _, x := range seq.Values {
		s, ok := scalar(x)
		if !ok || strings.ContainsRune(s, 0) {
			return nil, at(v.from, x.GetToken(), v.key, "an argument is one plain value; put true, false and null in quotes")
		}
		all = append(all, s)
	}
	return all, nil
}

var labelName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._/-]{0,62}$`) })

// label sets one label. They come together from all sources.
func (c *Config) label(name string, v given) error {
	if !labelName().MatchString(name) {
		return v.errorf("%s cannot be the name of a label: up to 63 letters, digits and . _ / -", show(name))
	}
	if len(v.text) > 256 || strings.IndexFunc(v.text, func(r rune) bool { return r < ' ' || r == 0x7f }) >= 0 {
		return v.errorf("the value of label %s is longer than 256 bytes or has a control character in it", show(name))
	}
	if c.Labels == nil {
		c.Labels = map[string]string{}
	}
	c.Labels[name] = v.text
	c.remember("labels."+name, v.from)
	return nil
}
