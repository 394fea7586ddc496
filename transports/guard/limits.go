package guard

const (
	// tokenBytes is the randomness of a new token, in bytes.
	tokenBytes = 32

	// maxTokenFile is the largest token file that is read, in bytes.
	maxTokenFile = 4 << 10

	// maxShown is how many bytes of a refused header an error repeats.
	maxShown = 200
)
