package logs

// keptBytes is how much of the log is kept in memory, the newest, in bytes: some
// thousand lines.
const keptBytes = 1 << 20
