// Fakehost writes endpoints.json like "polyhost serve" does and waits for
// SIGTERM.
package main

import (
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"
)

func main() {
	fmt.Println(os.Getenv("SAY"))
	if code, err := strconv.Atoi(os.Getenv("EXIT")); err == nil {
		os.Exit(code)
	}
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM)
	home := os.Args[3] // serve --home HOME
	data := fmt.Sprintf(`{"pid":%[1]d,"fronts":{"echo":{"url":"ws://127.0.0.1:1/","token":"t%[1]d"}},"console":{"url":"http://127.0.0.1:1/","token":"c"}}`, os.Getpid())
	if err := os.WriteFile(filepath.Join(home, "endpoints.json"), []byte(data), 0o600); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	<-stop
	fmt.Println("bye")
}
