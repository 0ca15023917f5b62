// Package inside is the program that stands between bubblewrap and an agent in
// a sandbox without a network: what the agent sends to a proxy on loopback
// goes through a socket to the one that stands outside.
package inside
