package testdb

import (
	"bufio"
	"os"
	"runtime"
	"strings"
	"sync"
)

// packages are the package names of programs whose names differ from the program's, by system.
var packages = map[string]map[string]string{
	"debian": {"go": "golang-go", "redis": "redis-server", "mariadb": "mariadb-server", "chromium": "chromium", "firefox": "firefox-esr"},
	"fedora": {"go": "golang", "postgresql": "postgresql-server", "mariadb": "mariadb-server", "redis": "valkey-compat-redis"},
	"arch":   {"redis": "valkey"},
	"macos":  {"postgresql": "postgresql@17"},
}

// commands install packages, by system.
var commands = map[string]string{"debian": "sudo apt-get install ", "fedora": "sudo dnf install ", "arch": "sudo pacman -S ", "macos": "brew install "}

// Install returns how to get programs on this system, such as "install it with sudo apt-get install redis-server". On an
// unknown system it only names the programs.
func Install(programs ...string) string { return installOn(system(), programs) }

// installOn is Install for a system; "" is an unknown one.
func installOn(system string, programs []string) string {
	command, ok := commands[system]
	if !ok {
		return "install " + strings.Join(programs, ", ")
	}
	names := make([]string, len(programs))
	for i, p := range programs {
		names[i] = p
		if name := packages[system][p]; name != "" {
			names[i] = name
		}
	}
	return "install with " + command + strings.Join(names, " ")
}

// system returns debian (also for Ubuntu and others based on it), fedora, arch, macos, or "".
var system = sync.OnceValue(func() string {
	if runtime.GOOS == "darwin" {
		return "macos"
	}
	text, err := os.ReadFile("/etc/os-release")
	if err != nil {
		return ""
	}
	return systemOf(string(text))
})

// systemOf reads the fields ID and ID_LIKE of os-release(5).
func systemOf(release string) string {
	fields := map[string]string{}
	for lines := bufio.NewScanner(strings.NewReader(release)); lines.Scan(); {
		name, value, _ := strings.Cut(lines.Text(), "=")
		fields[name] = strings.Trim(value, `"'`)
	}
	for _, id := range append([]string{fields["ID"]}, strings.Fields(fields["ID_LIKE"])...) {
		if _, ok := commands[id]; ok && id != "macos" {
			return id
		}
	}
	return ""
}
