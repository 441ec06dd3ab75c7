package main

import (
	"debug/buildinfo"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

// sbom writes a CycloneDX list of the linked modules, as recorded by Go, and of the console's libraries. It omits the
// serial number, which must be random.
func (r *release) sbom(a arch) error {
	info, err := buildinfo.ReadFile(filepath.Join(r.tree(a), "holdfast"))
	if err != nil {
		return err
	}
	main := cdx.Component{
		BOMRef: "pkg:generic/holdfast@" + r.version.files, Type: cdx.ComponentTypeApplication,
		Name: "holdfast", Version: r.version.files,
		Licenses: &cdx.Licenses{{License: &cdx.License{ID: "MPL-2.0"}}},
		Properties: &[]cdx.Property{
			{Name: "cdx:gomod:build:env:GOOS", Value: "linux"},
			{Name: "cdx:gomod:build:env:GOARCH", Value: a.goarch},
		},
	}
	// The standard library is part of the binary and has its own advisories.
	goVersion := strings.TrimPrefix(info.GoVersion, "go")
	goVersion, _, _ = strings.Cut(goVersion, " ")
	components := []cdx.Component{{
		BOMRef: "pkg:golang/std@" + goVersion, Type: cdx.ComponentTypeLibrary, Name: "std", Version: goVersion,
		PackageURL: "pkg:golang/std@" + goVersion,
	}}
	for _, module := range info.Deps {
		component, err := componentOf(module)
		if err != nil {
			return err
		}
		components = append(components, component)
	}
	all, err := r.libraries()
	if err != nil {
		return err
	}
	for _, l := range all {
		// The @ before an npm scope is encoded: the one before the version separates it.
		purl := "pkg:npm/" + strings.Replace(l.Name, "@", "%40", 1) + "@" + l.Version
		components = append(components, cdx.Component{
			BOMRef: purl, Type: cdx.ComponentTypeLibrary, Name: l.Name, Version: l.Version, PackageURL: purl,
			Licenses: &cdx.Licenses{{License: &cdx.License{ID: l.License}}},
		})
	}
	refs := []string{}
	for _, c := range components {
		refs = append(refs, c.BOMRef)
	}

	bom := cdx.NewBOM()
	bom.Metadata = &cdx.Metadata{Timestamp: r.time.Format("2006-01-02T15:04:05Z"), Component: &main}
	bom.Components = &components
	bom.Dependencies = &[]cdx.Dependency{{Ref: main.BOMRef, Dependencies: &refs}}
	f, err := os.Create(filepath.Join(r.out, r.name(a)+".cdx.json"))
	if err != nil {
		return err
	}
	defer f.Close()
	if err := cdx.NewBOMEncoder(f, cdx.BOMFileFormatJSON).SetPretty(true).Encode(bom); err != nil {
		return err
	}
	return f.Close()
}

// componentOf takes the checksum from go.sum.
func componentOf(m *debug.Module) (cdx.Component, error) {
	if m.Replace != nil {
		m = m.Replace
	}
	sum, ok := strings.CutPrefix(m.Sum, "h1:")
	hash, err := base64.StdEncoding.DecodeString(sum)
	if !ok || err != nil {
		return cdx.Component{}, fmt.Errorf("module %s has no checksum: %q", m.Path, m.Sum)
	}
	purl := "pkg:golang/" + m.Path + "@" + m.Version
	return cdx.Component{
		BOMRef: purl, Type: cdx.ComponentTypeLibrary, Name: m.Path, Version: m.Version, PackageURL: purl,
		Hashes: &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: hex.EncodeToString(hash)}},
	}, nil
}
