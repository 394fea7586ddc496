// Package stub is a model server that does what the prompt says, so that agent
// CLIs can be tried and tested without an account or a network.
//
// It speaks the wires that agent CLIs speak to models: Anthropic Messages,
// OpenAI Responses and Chat Completions, and Gemini's generateContent, each
// streamed or whole, under any path prefix. The newest user message that holds a
// directive is the script; docs/model-stub.md lists the directives. A script of
// several lines is played one step an answer: the next step comes when the
// agent has sent the tool results of the one before. When it is used up, the
// answer ends the turn and quotes the last tool result.
//
//   - Bounds: bodies of at most maxBody bytes, a script of at most maxSteps
//     lines, and a log of the newest maxLog requests.
//   - Every answer ends with its request: a client that goes away ends its
//     stream.
//
// It must not know any agent: what it knows of a CLI is the tools that its
// request declares.
package stub
