package users

const (
	// maxUsers is how many users a directory has.
	maxUsers = 1000
	// maxName is the longest name of a user, in bytes.
	maxName = 64
	// maxFile is the largest directory that is read, in bytes: what the users
	// need, and room for a person's spaces.
	maxFile = 1 << 20
)
