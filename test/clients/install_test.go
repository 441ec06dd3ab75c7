package clients

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"holdfast/test/binary"
)

func installing(t *testing.T, readme string) (commands []string) {
	t.Helper()
	text, err := os.ReadFile(readme)
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "\n## Install\n")
	section, _, _ = strings.Cut(section, "\n## ")
	for _, block := range regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(section, -1) {
		commands = append(commands, strings.Split(strings.TrimSpace(block[1]), "\n")...)
	}
	return commands
}

// example returns a README's first block in a language.
func example(t *testing.T, readme, language string) string {
	t.Helper()
	text, err := os.ReadFile(readme)
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile("(?s)\n```" + language + "\n(.*?)\n```\n").FindStringSubmatch(string(text))
	if found == nil {
		t.Fatalf("%s has no example in %s", readme, language)
	}
	return found[1] + "\n"
}

func shell(ctx context.Context, t *testing.T, dir, command string, env ...string) string {
	t.Helper()
	cmd := exec.CommandContext(ctx, "sh", "-c", command)
	cmd.Dir, cmd.Env, cmd.WaitDelay = dir, append(os.Environ(), env...), time.Second
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", command, err, out)
	}
	return string(out)
}

// TestGoInstall checks that the commands and examples in the Go clients' READMEs work in an empty folder, offline.
func TestGoInstall(t *testing.T) {
	t.Parallel()
	t.Run("ext", func(t *testing.T) {
		t.Parallel()
		server := binary.Start(t, t.TempDir(), "HOLDFAST_EXTSTORAGE__ENABLED=true")
		out := runExample(t, "../../client/ext/README.md", "STORAGE_URL="+server.URL, "STORAGE_INSTALL="+install,
			"STORAGE_TOKEN="+strings.TrimSpace(server.Verb("ext", "tokens", "create", "--tenant", tenant, "--install", install, "--namespace", "settings=rw")))
		if out != "revision 1\n" {
			t.Errorf("the example printed %q", out)
		}
	})
	t.Run("guest", func(t *testing.T) {
		t.Parallel()
		server := startShop(t, "HOLDFAST_SERVER__INTERNAL_LISTEN=127.0.0.1:0")
		out := runExample(t, "../../client/guest/README.md", "SHOP_URL="+server.URL, "INTERNAL_URL="+server.Internal(),
			"SERVICE_TOKEN="+strings.TrimSpace(server.Verb("guest", "tokens", "create", "--service", "checkout", "--ttl", "720h")))
		if out != "to pay: [{sku-4711 2}]\n" {
			t.Errorf("the example printed %q", out)
		}
	})
}

func runExample(t *testing.T, readme string, env ...string) string {
	t.Helper()
	source, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), most)
	defer cancel()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "main.go"), []byte(example(t, readme, "go")), 0o600); err != nil {
		t.Fatal(err)
	}
	commands := installing(t, readme)
	if len(commands) != 3 {
		t.Fatalf("commands %q", commands)
	}
	env = append(env, "GOPROXY=off", "GOSUMDB=off")
	for _, command := range commands {
		shell(ctx, t, dir, strings.Replace(command, "../holdfast", source, 1), env...)
	}
	return shell(ctx, t, dir, "go run .", env...)
}

// installTypeScript builds the package in dir, after `npm ci`, and uses it from an empty folder: its code with node, its
// types with tsc.
func installTypeScript(ctx context.Context, t *testing.T, dir string) {
	readme := filepath.Join(dir, "README.md")
	commands := installing(t, readme)
	const file = "../holdfast/clients/typescript/holdfast-ext-storage-0.1.0.tgz"
	if !slices.Equal(commands, []string{"npm ci", "npm pack", "npm install " + file}) {
		t.Fatalf("commands %q", commands)
	}
	packed := shell(ctx, t, dir, "npm pack")
	for _, part := range []string{"dist/index.js", "dist/index.d.ts", "README.md", "package.json"} {
		if !strings.Contains(packed, part) {
			t.Errorf("the package has no %s:\n%s", part, packed)
		}
	}
	if strings.Contains(packed, "test/") || strings.Contains(packed, "src/") {
		t.Errorf("the package has more than what runs:\n%s", packed)
	}

	project := t.TempDir()
	quiet := []string{"npm_config_prefer_offline=true", "npm_config_audit=false", "npm_config_fund=false"}
	shell(ctx, t, project, "npm init -y >/dev/null && npm pkg set type=module", quiet...)
	shell(ctx, t, project, strings.Replace(commands[2], file, filepath.Join(dir, filepath.Base(file)), 1), quiet...)

	server := binary.Start(t, t.TempDir(), "HOLDFAST_EXTSTORAGE__ENABLED=true")
	program := `import { createClient } from "@holdfast/ext-storage";
const env: Record<string, string | undefined> = (globalThis as any).process.env;
const storage = createClient({ baseUrl: env.BASE_URL!, install: env.INSTALL!, token: env.TOKEN! });
const settings = storage.namespace("life");
await settings.put("theme", { dark: true });
const theme = await settings.get<{ dark: boolean }>("theme");
const revision: number | undefined = theme?.revision;
console.log("revision", revision, theme?.value.dark);
`
	if err := os.WriteFile(filepath.Join(project, "index.ts"), []byte(program), 0o600); err != nil {
		t.Fatal(err)
	}
	tsc := filepath.Join(dir, "node_modules", ".bin", "tsc")
	for _, resolution := range []string{"--module esnext --moduleResolution bundler --skipLibCheck", "--module nodenext"} {
		shell(ctx, t, project, tsc+" --strict --target es2022 "+resolution+" index.ts")
	}
	out := shell(ctx, t, project, "node index.js", "BASE_URL="+server.URL, "INSTALL="+install, "TOKEN="+token(server))
	if out != "revision 1 true\n" {
		t.Errorf("the program printed %q", out)
	}

	main := strings.Replace(example(t, readme, "js"), "http://127.0.0.1:8000", server.URL, 1)
	main = regexp.MustCompile(`install: "[^"]*"`).ReplaceAllString(main, `install: "`+install+`"`)
	if err := os.WriteFile(filepath.Join(project, "main.mjs"), []byte(main), 0o600); err != nil {
		t.Fatal(err)
	}
	out = shell(ctx, t, project, "node main.mjs", "STORAGE_TOKEN="+
		strings.TrimSpace(server.Verb("ext", "tokens", "create", "--tenant", tenant, "--install", install, "--namespace", "settings=rw")))
	if out != "revision 2 { dark: true, accent: '#0a84ff' }\nstats { visits: 1 }\n" {
		t.Errorf("the example of the README printed %q", out)
	}
}
