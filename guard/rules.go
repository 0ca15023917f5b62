package guard

// Names of the built-in rules.
const (
	rulePush       = "git-push"
	rulePushForce  = "git-push-force"
	ruleCommit     = "git-commit"
	ruleRefs       = "git-refs"
	ruleSwitch     = "git-switch"
	ruleSafety     = "git-safety"
	ruleGitDir     = "git-dir"
	ruleForge      = "forge-write"
	ruleAPI        = "forge-api"
	ruleWeb        = "web"
	ruleRemove     = "rm-outside"
	ruleUnresolved = "unresolved"
	ruleUnparsed   = "unparsed"
)

// builtinRule is a rule that comes with Rein.
type builtinRule struct {
	Rule
	// fixed: nobody may lift it. What is reversible, visible and says who did
	// it can be granted; what changes a branch that others build on cannot, nor
	// can what would switch the other lines of defence off.
	fixed bool
	// asked: Command is one of the commands that are denied by name, in the
	// prompt and in the CLI's flags.
	asked bool
}

const (
	leaves = "nothing may leave this machine. "
	later  = "Leave the work in the working tree: the user decides what becomes of it."
)

var builtin = []builtinRule{
	{Rule{rulePush, "git push", Deny, "git push is refused: " + leaves + later}, true, true},
	{Rule{rulePushForce, "", Halt, "A push that overwrites or deletes what others have is never allowed."}, true, false},
	{Rule{ruleCommit, "git commit", Deny, "Commits, and what moves the branch like one (merge, rebase, reset to another commit, pull), are refused in this repository. " + later}, false, true},
	{Rule{ruleRefs, "", Deny, "Making, moving or deleting branches, tags, working trees and other references is refused in this repository, and so is destroying history (stash drop, prune, reflog expire). Work on what is checked out."}, false, false},
	{Rule{ruleSwitch, "", Deny, "Switching the branch is refused in this repository. Work on what is checked out: git show BRANCH:FILE and git diff BRANCH read another one, git restore FILE brings a file back."}, false, false},
	{Rule{ruleSafety, "", Deny, "This changes what keeps git safe here (hooks, remotes, credentials, configuration through the environment) and is refused. Run the git command without it."}, true, false},
	{Rule{ruleGitDir, "", Deny, "Writing into the repository's .git by hand is refused. Work on the files of the working tree."}, true, false},
	{Rule{"gh-pr-create", "gh pr create", Deny, "Opening a pull request is refused: " + leaves + later}, false, true},
	{Rule{"gh-pr-edit", "gh pr edit", Deny, "Changing a pull request is refused: " + leaves + "Say in your answer what should be changed."}, false, true},
	{Rule{"gh-pr-merge", "gh pr merge", Deny, "Merging is refused: the user merges."}, true, true},
	{Rule{"gh-pr-review", "gh pr review", Deny, "Reviewing on the forge is refused: " + leaves + "Put the review into your answer."}, false, true},
	{Rule{"gh-pr-comment", "gh pr comment", Deny, "Commenting is refused: " + leaves + "Put the comment into your answer."}, false, true},
	{Rule{"gh-release-create", "gh release create", Deny, "Publishing a release is refused: " + leaves + later}, false, true},
	{Rule{ruleForge, "", Deny, "Changing anything on the forge is refused: " + leaves + "Reading is fine. Say in your answer what should be done."}, false, false},
	{Rule{ruleAPI, "", Deny, "Writing through the forge's API is refused: " + leaves + "GET requests are fine."}, true, false},
	{Rule{ruleWeb, "", Deny, "The web tools are off in this run. Work with what is on this machine."}, false, false},
	{Rule{ruleRemove, "", Deny, "Deleting recursively outside of the working directory and the directories for temporary files is refused. Delete what is yours, by its exact path."}, false, false},
	{Rule{ruleUnresolved, "", Warn, "What this command does depends on a value that cannot be known beforehand. Write the value out."}, false, false},
	{Rule{ruleUnparsed, "", Warn, "This command could not be read as shell. Write it more simply."}, false, false},
}

// packs are the sets of rules that are off by default. Each denies what cannot
// be taken back or what publishes.
var packs = map[string][]Rule{
	"elixir": {
		// Rebuilding all dependencies takes longer than most runs may last, and
		// breaks everybody who shares the build directory.
		{Command: "mix deps.clean", Reason: "mix deps.clean is refused: the dependencies are shared. Rebuild one with mix deps.compile NAME --force."},
		{Command: "mix hex.publish", Reason: "Publishing is refused: " + leaves + later},
		{Command: "mix ecto.drop", Reason: "Dropping the database is refused. Use a database of your own, for example with MIX_ENV=test."},
		{Command: "mix ecto.reset", Reason: "Dropping the database is refused. Use a database of your own, for example with MIX_ENV=test."},
	},
	"kubernetes": {
		{Command: "kubectl delete", Reason: "Deleting in a cluster is refused. Say in your answer what should be deleted."},
		{Command: "kubectl drain", Reason: "Draining nodes is refused."},
		{Command: "kubectl apply", Reason: "Changing a cluster is refused. kubectl diff and --dry-run=client in your answer show what would change."},
		{Command: "kubectl replace", Reason: "Changing a cluster is refused."},
		{Command: "kubectl scale", Reason: "Changing a cluster is refused."},
		{Command: "helm install", Reason: "Changing a cluster is refused. helm template shows what would be installed."},
		{Command: "helm upgrade", Reason: "Changing a cluster is refused. helm template shows what would be installed."},
		{Command: "helm uninstall", Reason: "Deleting in a cluster is refused."},
		{Command: "helm delete", Reason: "Deleting in a cluster is refused."},
		{Command: "helm rollback", Reason: "Changing a cluster is refused."},
	},
	"publish": {
		{Command: "npm publish", Reason: "Publishing is refused: " + leaves + later},
		{Command: "npm unpublish", Reason: "Publishing is refused: " + leaves + later},
		{Command: "pnpm publish", Reason: "Publishing is refused: " + leaves + later},
		{Command: "yarn publish", Reason: "Publishing is refused: " + leaves + later},
		{Command: "yarn npm publish", Reason: "Publishing is refused: " + leaves + later},
		{Command: "bun publish", Reason: "Publishing is refused: " + leaves + later},
		{Command: "cargo publish", Reason: "Publishing is refused: " + leaves + later},
		{Command: "cargo yank", Reason: "Publishing is refused: " + leaves + later},
		{Command: "gem push", Reason: "Publishing is refused: " + leaves + later},
		{Command: "twine upload", Reason: "Publishing is refused: " + leaves + later},
		{Command: "poetry publish", Reason: "Publishing is refused: " + leaves + later},
		{Command: "uv publish", Reason: "Publishing is refused: " + leaves + later},
		{Command: "mvn deploy", Reason: "Publishing is refused: " + leaves + later},
		{Command: "docker push", Reason: "Publishing is refused: " + leaves + later},
		{Command: "podman push", Reason: "Publishing is refused: " + leaves + later},
		{Command: "goreleaser release", Reason: "Publishing is refused: " + leaves + later},
	},
	"terraform": {
		{Command: "terraform apply", Reason: "Changing infrastructure is refused. terraform plan shows what would change."},
		{Command: "terraform destroy", Reason: "Changing infrastructure is refused. terraform plan -destroy shows what would go."},
		{Command: "terraform state rm", Reason: "Changing the state is refused."},
		{Command: "tofu apply", Reason: "Changing infrastructure is refused. tofu plan shows what would change."},
		{Command: "tofu destroy", Reason: "Changing infrastructure is refused. tofu plan -destroy shows what would go."},
		{Command: "tofu state rm", Reason: "Changing the state is refused."},
		{Command: "pulumi up", Reason: "Changing infrastructure is refused. pulumi preview shows what would change."},
		{Command: "pulumi destroy", Reason: "Changing infrastructure is refused."},
	},
}
