package jsonx

const (
	// MaxDepth is how deep arrays and objects may nest. No protocol needs a
	// tenth of it, and a decoder's stack must not be the peer's to choose.
	MaxDepth = 128

	// maxShown is how many bytes of a peer's own key an error repeats.
	maxShown = 64
)
