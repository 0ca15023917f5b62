// Package sshd runs a real OpenSSH server on loopback, for tests: with keys, users
// and home directories of its own, and nothing of the machine's changed.
package sshd
