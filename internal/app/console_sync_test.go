package app_test

import (
	"bytes"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"holdfast/internal/cli"
)

func runCommand(t *testing.T, environ []string, args ...string) string {
	t.Helper()
	var out bytes.Buffer
	if status := cli.Run(t.Context(), cli.Env{Args: args, Environ: environ, Stdin: strings.NewReader(""), Stdout: &out, Stderr: &out, Services: onAllEngines()}); status != 0 {
		t.Fatalf("%q: %d\n%s", args, status, &out)
	}
	return out.String()
}

const (
	largeAccount = "0123456789abcdef0123456789abcdef"
	smallAccount = "fedcba9876543210fedcba9876543210"
)

func (b *browser) importAccounts(environ []string) {
	b.t.Helper()
	// With PostgreSQL, the start continues after the announcement, and adds the storage node last.
	b.awaitPage("tokenserver/nodes", "no storage node", func() bool {
		return slices.ContainsFunc(b.page.all("tbody"), func(e *element) bool { return len(e.all("tr")) > 0 })
	})
	for account, records := range map[string]int{largeAccount: 3, smallAccount: 1} {
		export := `{"export":1,"account":"` + account + `","keys":"0000000000001-AAAAAAAAAAAAAAAAAAAAAA","generation":1,"records":1,"exportedAt":1700000000000}
{"collection":"bookmarks","modified":1700000000000}
`
		for i := range records {
			export += `{"collection":"bookmarks","id":"record` + string(rune('a'+i)) + `","modified":1700000000000,"payload":"` + strings.Repeat("x", 1000) + `"}` + "\n"
		}
		export += `{"complete":true,"collections":1,"records":` + string(rune('0'+records)) + "}\n"
		file := filepath.Join(b.t.TempDir(), "export")
		if err := os.WriteFile(file, []byte(export), 0o600); err != nil {
			b.t.Fatal(err)
		}
		runCommand(b.t, environ, "tokenserver", "accounts", "import", account, file)
	}
}

func consoleAccounts(b *browser, environ []string) {
	b.importAccounts(environ)
	b.open("tokenserver/accounts")
	order := func(first, second string) {
		b.t.Helper()
		if text := b.page.String(); strings.Index(text, first) > strings.Index(text, second) || !strings.Contains(text, first) {
			b.t.Errorf("%s: the order is wrong in\n%s", b.at, text)
		}
	}
	b.try(http.StatusOK, largeAccount, "Search", "prefix", " "+strings.ToUpper(largeAccount[:4]))
	b.hides(smallAccount)
	b.open("tokenserver/accounts")
	b.try(http.StatusBadRequest, "expected the first 1 to 31 lower-case hexadecimal digits", "Search", "prefix", `x"><b>`)
	b.open("tokenserver/accounts")
	b.try(http.StatusOK, "No matching account has storage.", "Search", "prefix", "4321")
	b.open("tokenserver/accounts")
	b.follow("Bytes")
	order(largeAccount, smallAccount)
	b.follow("Bytes")
	order(smallAccount, largeAccount)
	b.follow("Records")
	order(largeAccount, smallAccount)
	for _, th := range b.page.all("th") {
		if sorted := th.attrs["aria-sort"]; (sorted == "descending") != (th.String() == "Records") {
			b.t.Errorf("the column %s is sorted %q", th, sorted)
		}
	}
	b.follow("Last write")
	b.follow("UID")
	b.try(http.StatusNotFound, "is unknown", "Show account", "account", strings.Repeat("0", 32))
	b.try(http.StatusBadRequest, "expected 32 hexadecimal digits", "Show account", "account", "<b>")
	if status := b.send(http.MethodGet, b.base+"/console/tokenserver/accounts?sort=nothing", nil); status != http.StatusBadRequest {
		b.t.Errorf("an unknown order: %d", status)
	}
	b.open("tokenserver/accounts")
	uid := b.page.all("tbody")[0].all("td")[2].String()
	b.try(http.StatusOK, "Storage users", "Show account", "account", uid)
	b.shows(uid)
	b.open("tokenserver/accounts")
	b.try(http.StatusNotFound, "No account has the UID 999999", "Show account", "account", "999999")
	b.try(http.StatusOK, "bookmarks", "Show account", "account", largeAccount)
	b.shows("Storage users", "3")
	if bars := b.page.all("meter"); len(bars) == 0 || bars[len(bars)-1].attrs["high"] != bars[len(bars)-1].attrs["max"] {
		b.t.Errorf("the bar of the only collection looks like that of a quota:\n%s", b.raw)
	}
	b.try(http.StatusBadRequest, "expected a number of bytes", "Set quota", "quota", "much")
	b.submit("Set quota", "quota", "500MiB")
	b.shows("The quota is set", "500.0 MiB (a quota of its own)")
	b.consoleLabel(largeAccount)
	b.submit("Deny")
	b.shows("Account "+largeAccount+" (", ") may not sign in.", "Accessdeny")
	if b.form("Deny") != nil {
		b.t.Error("an account that is denied can be denied")
	}
	b.submit("Remove from the lists")
	b.submit("Deny")
	b.open("tokenserver/access")
	b.submit("Deny", "account", smallAccount, "note", hostile)
	b.shows(hostile)
	b.follow(largeAccount)
	b.submit("Allow")
	b.open("tokenserver/access")
	b.submit("Remove from the lists: account " + smallAccount)
	b.follow(largeAccount)
	b.try(http.StatusBadRequest, "Nothing was changed", "Delete data", "confirm", smallAccount)
	b.submit("Delete data", "confirm", largeAccount)
	b.shows("Deleted the data of 1 storage user.")
	b.hides("bookmarks")
	b.open("tokenserver/refused")
	b.shows("No sign-in was refused.")
}

func (b *browser) consoleLabel(account string) {
	b.t.Helper()
	b.try(http.StatusBadRequest, "at most 100 printable characters", "Set label", "label", strings.Repeat("a", 101))
	b.submit("Set label", "label", hostile)
	b.shows("Account "+hostile, "Label"+hostile, account)
	b.open("tokenserver/accounts")
	b.try(http.StatusOK, account, "Search", "label", strings.ToUpper(hostile[:3]))
	b.follow(hostile)
	b.shows("Account "+hostile, account)
	if !strings.Contains(b.raw, `href="/console/tokenserver/accounts/export?account=`+account+`"`) {
		b.t.Errorf("the page of the account has no link to its export:\n%s", b.raw)
	}
}
