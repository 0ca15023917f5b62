package agent

// Doctor is an optional ability of an Agent: how its CLI is asked about itself
// without a call of a model.
type Doctor interface {
	// HelpArgs are the arguments that print the help in which Flags stand; several
	// where the flags of a sub-command have a help of their own.
	HelpArgs(version string) [][]string
	// Flags are those that Command may use at a version: what the help has no
	// longer is a sign that the CLI has moved on.
	Flags(version string) []string
	// LoginArgs print whether somebody is logged in; nil: the CLI cannot tell.
	LoginArgs(version string) []string
	// ParseLogin reads what LoginArgs printed, stdout and stderr together.
	// output is hostile.
	ParseLogin(code int, output []byte) Login
}

// Login is what a CLI says about its login.
type Login struct {
	State LoginState `json:"state"`
	// Pays says who pays, where the CLI tells: "subscription", "key", else "".
	Pays string `json:"pays,omitempty"`
	// Detail is a few words for a person, without an account's name.
	Detail string `json:"detail,omitempty"`
}

// LoginState is whether somebody is logged in.
type LoginState string

const (
	LoggedIn     LoginState = "in"
	LoggedOut    LoginState = "out"
	LoginUnknown LoginState = "unknown"
)
