package addon

import "time"

const (
	// MaxFiles is how many files and directories one plugin may hold, MaxBytes
	// how much they hold together and MaxFile how much one of them does, in
	// bytes: a client sends a file as one message.
	MaxFiles = 2000
	MaxBytes = 16 << 20
	MaxFile  = 8 << 20
	// MaxDepth is how many directories may lie in each other.
	MaxDepth = 12
	// MaxName is the longest name of a file, in bytes: the kernel's own bound.
	MaxName = 255
	// MaxCopies is how many copies are kept: with MaxBytes it bounds the disk.
	MaxCopies = 128
	// MaxShare is how many of them are kept that one client brought.
	MaxShare = MaxCopies / 2
	// CopyWithin is how long one copy may take: a client may be far away.
	CopyWithin = 2 * time.Minute
	// copiesAtOnce is how many are made at a time; others wait.
	copiesAtOnce = 4

	// MaxItems is how many things of one plugin are listed.
	MaxItems = 500
	// maxText is the longest description of one, in bytes.
	maxText = 500
	// maxHead is how much of a file is read for what it says of itself, and
	// maxManifest of a manifest, in bytes.
	maxHead     = 16 << 10
	maxManifest = 256 << 10
)
