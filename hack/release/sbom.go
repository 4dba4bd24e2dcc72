package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// spdx is the part of SPDX 2.3 that is used here (https://spdx.github.io/spdx-spec/v2.3/).
type spdx struct {
	Version       string         `json:"spdxVersion"`
	License       string         `json:"dataLicense"`
	ID            string         `json:"SPDXID"`
	Name          string         `json:"name"`
	Namespace     string         `json:"documentNamespace"`
	Creation      spdxCreation   `json:"creationInfo"`
	Packages      []spdxPackage  `json:"packages"`
	Files         []spdxFile     `json:"files"`
	Relationships []spdxRelation `json:"relationships"`
}

type spdxCreation struct {
	Created  string   `json:"created"`
	Creators []string `json:"creators"`
}

type spdxPackage struct {
	Name      string         `json:"name"`
	ID        string         `json:"SPDXID"`
	Version   string         `json:"versionInfo"`
	Location  string         `json:"downloadLocation"`
	Analysed  bool           `json:"filesAnalyzed"`
	Concluded string         `json:"licenseConcluded"`
	Declared  string         `json:"licenseDeclared"`
	Copyright string         `json:"copyrightText"`
	Refs      []spdxExternal `json:"externalRefs,omitempty"`
	Comment   string         `json:"comment,omitempty"`
}

type spdxExternal struct {
	Category string `json:"referenceCategory"`
	Type     string `json:"referenceType"`
	Locator  string `json:"referenceLocator"`
}

type spdxFile struct {
	Name      string         `json:"fileName"`
	ID        string         `json:"SPDXID"`
	Checksums []spdxChecksum `json:"checksums"`
	Concluded string         `json:"licenseConcluded"`
	Copyright string         `json:"copyrightText"`
}

type spdxChecksum struct {
	Algorithm string `json:"algorithm"`
	Value     string `json:"checksumValue"`
}

type spdxRelation struct {
	From string `json:"spdxElementId"`
	Type string `json:"relationshipType"`
	To   string `json:"relatedSpdxElement"`
}

const (
	noAssertion = "NOASSERTION"
	document    = "SPDXRef-DOCUMENT"
	product     = "SPDXRef-Package-agentjail"
)

// billOfMaterials lists the programs in dir, the modules that each holds, and their licences.
func (r *release) billOfMaterials(dir, arch string, deps []licensed) ([]byte, error) {
	d := spdx{
		Version: "SPDX-2.3", License: "CC0-1.0", ID: document, Name: "agentjail-" + r.version + "-" + arch,
		Namespace: "https://" + module + "/spdx/agentjail-" + r.version + "-" + arch + "-" + r.commit,
		Creation:  spdxCreation{Created: r.time.Format(time.RFC3339), Creators: []string{"Tool: agentjail-hack-release"}},
		Packages: []spdxPackage{{
			Name: "agentjail", ID: product, Version: r.version, Location: noAssertion, Concluded: "Apache-2.0", Declared: "Apache-2.0", Copyright: noAssertion,
			Refs: []spdxExternal{{"PACKAGE-MANAGER", "purl", "pkg:golang/" + module + "@" + r.commit}}, Comment: "commit " + r.commit,
		}},
		Relationships: []spdxRelation{{document, "DESCRIBES", product}},
	}
	files := map[string]string{}
	for _, name := range r.mains {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return nil, err
		}
		sum := sha256.Sum256(text)
		id := "SPDXRef-File-" + name
		files[name] = id
		d.Files = append(d.Files, spdxFile{"./usr/bin/" + name, id, []spdxChecksum{{"SHA256", hex.EncodeToString(sum[:])}}, "Apache-2.0", noAssertion})
		d.Relationships = append(d.Relationships, spdxRelation{product, "CONTAINS", id})
	}
	for _, dep := range deps {
		p := spdxModule(dep)
		d.Packages = append(d.Packages, p)
		for _, program := range dep.programs {
			d.Relationships = append(d.Relationships, spdxRelation{files[program], "STATIC_LINK", p.ID})
		}
	}
	text, err := json.MarshalIndent(d, "", "  ")
	return append(text, '\n'), err
}

// notID is what an SPDX identifier may not hold.
var notID = regexp.MustCompile(`[^A-Za-z0-9.-]+`)

func spdxModule(d licensed) spdxPackage {
	p := spdxPackage{
		Name: d.path, ID: "SPDXRef-Module-" + notID.ReplaceAllString(d.path, "-"), Version: d.version,
		Location: noAssertion, Concluded: d.license, Declared: d.license, Copyright: noAssertion,
		Refs: []spdxExternal{{"PACKAGE-MANAGER", "purl", "pkg:golang/" + d.path + "@" + d.version}}, Comment: d.sum,
	}
	if d.path == stdlib {
		p.Name = "Go standard library"
		p.Refs[0].Locator = "pkg:golang/stdlib@" + strings.TrimPrefix(d.version, "go")
	}
	return p
}
