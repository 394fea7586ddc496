package terminal

import "testing"

func TestPlainText(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"a\r\nb\r\n":                        "a\nb\n",
		"\x1b[1;31mred\x1b[0m\t\x1b]0;t\a.": "red\t.",
		"10%\r20%\r\r\nend":                 "10%\n20%\nend",
		"é🙂\b\x7f\x1b(Bx":                   "é🙂x",
	} {
		var whole, split Plain
		got := ""
		for i := range len(in) {
			got += split.Text(in[i : i+1])
		}
		if all := whole.Text(in); all != want || got != want {
			t.Errorf("%q: %q, in pieces %q, want %q", in, all, got, want)
		}
	}
}
