package guard

import (
	"maps"
	"slices"

	"mvdan.cc/sh/v3/syntax"
)

// state is what a shell knows while it works through a command.
type state struct {
	dirs      []string // where it may be: more than one after an alternative
	oldDirs   []string
	vars      map[string][]string // more than one value: an array
	funcs     map[string]*syntax.Stmt
	aliases   map[string]string
	args      []string // $1 …; nil and !argsKnown: anything
	known     bool     // args are known
	tampered  bool     // what Rein put into git's environment was taken away
	unblocked bool     // and with it what its programs are held by
	over      bool     // exit, return, break, continue
	foreign   bool     // in a container: its files are not ours
}

func (s *state) copy() *state {
	c := *s
	c.dirs = slices.Clip(s.dirs)
	c.vars, c.funcs, c.aliases = maps.Clone(s.vars), maps.Clone(s.funcs), maps.Clone(s.aliases)
	return &c
}

// merge takes another way that the shell may have gone.
func (s *state) merge(o *state) {
	switch {
	case o.over:
		return
	case s.over:
		*s = *o
		return
	}
	s.dirs = union(s.dirs, o.dirs)
	s.tampered = s.tampered || o.tampered
	s.unblocked = s.unblocked || o.unblocked
	for k, v := range o.vars {
		if was, ok := s.vars[k]; !ok {
			s.set(k, []string{some})
		} else if !slices.Equal(was, v) {
			s.set(k, []string{some})
		}
	}
	for k := range s.vars {
		if _, ok := o.vars[k]; !ok {
			s.vars[k] = []string{some}
		}
	}
	for k, v := range o.funcs {
		s.define(k, v)
	}
	for k, v := range o.aliases {
		s.alias(k, v)
	}
}

// maxDirs bounds the alternatives.
const maxDirs = 8

func union(a, b []string) []string {
	for _, d := range b {
		if !slices.Contains(a, d) {
			if len(a) >= maxDirs {
				d = some
				if slices.Contains(a, d) {
					continue
				}
			}
			a = append(slices.Clip(a), d)
		}
	}
	return a
}

func (s *state) set(name string, v []string) {
	if s.vars == nil {
		s.vars = map[string][]string{}
	}
	s.vars[name] = v
}

func (s *state) define(name string, body *syntax.Stmt) {
	if s.funcs == nil {
		s.funcs = map[string]*syntax.Stmt{}
	}
	s.funcs[name] = body
}

func (s *state) alias(name, text string) {
	if s.aliases == nil {
		s.aliases = map[string]string{}
	}
	s.aliases[name] = text
}
