package clients

import (
	"crypto/ed25519"
	"crypto/x509"
	"encoding/pem"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"holdfast/client/ext"
	"holdfast/test/binary"
)

// What the guide's token services leave to their authors.
const (
	goService = `package main

import (
	"crypto/ed25519"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"net"
	"net/http"
	"os"
	"time"
)

var (
	tenant = os.Getenv("TENANT")
	key    ed25519.PrivateKey
)

func installOf(r *http.Request) (string, bool) {
	install := r.Header.Get("X-Install")
	return install, install != ""
}

func main() {
	text, err := os.ReadFile("platform.pem")
	if err != nil {
		panic(err)
	}
	block, _ := pem.Decode(text)
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		panic(err)
	}
	key = parsed.(ed25519.PrivateKey)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	fmt.Println("http://" + l.Addr().String())
	panic(http.Serve(l, http.HandlerFunc(storageToken)))
}

`
	typeScriptService = `import { createPrivateKey, sign } from "node:crypto";
import { readFileSync } from "node:fs";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";

const key = createPrivateKey(readFileSync("platform.pem"));
const tenant = process.env["TENANT"];
const installOf = (request: IncomingMessage): string | undefined => request.headers["x-install"] as string | undefined;

const server = createServer(storageToken).listen(0, "127.0.0.1", () => {
  const address = server.address();
  if (address && typeof address === "object") console.log("http://127.0.0.1:" + address.port);
});

`
)

// tokenServices runs the token services of the guide, and uses their tokens.
func tokenServices(t *testing.T, c *typescript) {
	const name = "../../docs/extension-storage.md"
	guide := read(t, name)
	_, section, _ := strings.Cut(guide, "\n## Tokens for your extension\n")
	dir := filepath.Join(c.dir, "service")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	write := func(file string, text []byte) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, file), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	block := func(language string) string {
		t.Helper()
		_, text, _ := strings.Cut(section, "\n```"+language+"\n")
		text, _, found := strings.Cut(text, "\n```\n")
		if !found {
			t.Fatalf("%s has no token service in %s", name, language)
		}
		return text + "\n"
	}
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	for file, key := range map[string]any{"platform.pem": private, "platform.pub": public} {
		kind, marshal := "PRIVATE KEY", x509.MarshalPKCS8PrivateKey
		if file == "platform.pub" {
			kind, marshal = "PUBLIC KEY", x509.MarshalPKIXPublicKey
		}
		der, err := marshal(key)
		if err != nil {
			t.Fatal(err)
		}
		write(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
	}
	write("holdfast.toml", []byte(strings.Replace(block("toml"), "platform.pub", filepath.Join(dir, "platform.pub"), 1)))
	server := binary.Start(t, t.TempDir(), "HOLDFAST_EXTSTORAGE__ENABLED=true", "HOLDFAST_CONFIG="+filepath.Join(dir, "holdfast.toml"))

	write("go.mod", []byte("module service\n\ngo 1.26\n"))
	write("main.go", []byte(goService+block("go")))
	write("service.ts", []byte(typeScriptService+block("ts")))
	services := &typescript{ctx: c.ctx, dir: dir, env: []string{"TENANT=" + tenant}}
	services.must(t, binary.Program(t, "go"), "build", "-o", "service", ".")
	node := binary.Program(t, "node")
	services.must(t, node, filepath.Join(c.dir, "node_modules", "typescript", "bin", "tsc"), "--strict", "--target", "es2022", "--module", "nodenext",
		"--types", "node", "service.ts")
	for language, command := range map[string][]string{"Go": {filepath.Join(dir, "service")}, "TypeScript": {node, "service.js"}} {
		t.Run(language, func(t *testing.T) {
			at := services.start(t, command[0], command[1:]...)
			if status, text := fetchToken(t, at, ""); status != http.StatusUnauthorized {
				t.Errorf("nobody gets %d %s", status, text)
			}
			_, token := fetchToken(t, at, install)
			client, err := ext.New(server.URL, ext.StaticToken(token))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := client.Install(install).Records("settings").Put(t.Context(), "by", ext.Put{Value: language}); err != nil {
				t.Errorf("token %s: %v", token, err)
			}
		})
	}
}

func fetchToken(t *testing.T, url, install string) (status int, text string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("X-Install", install)
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	all, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(all)
}
