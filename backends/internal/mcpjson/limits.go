package mcpjson

// maxFile is the largest file of servers or settings, in bytes, that is read to
// see which are approved.
const maxFile = 16 << 20
