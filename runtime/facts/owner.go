package facts

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"agentjail.dev/runtime/harden"
	"agentjail.dev/runtime/spec/bindsource"
	"agentjail.dev/runtime/spec/plan"
	"agentjail.dev/runtime/spec/policy"
)

// metadataLabel is the label of a devcontainer's image or container that names the user who works
// in it (containers.dev, "Dev Container metadata reference").
const metadataLabel = "devcontainer.metadata"

// maxMetadata bounds the size of that label, in bytes: features write some kilobytes.
const maxMetadata = 256 << 10

// namedOwner returns the user who is named as owner of the mounted files. The engine's caller and
// the image may name an owner: see policy.OwnerAnnotation.
func (g Gatherer) namedOwner(p *Gathered) harden.NamedOwner {
	var out harden.NamedOwner
	if !slices.ContainsFunc(p.Sources, func(s *bindsource.Source) bool { return s != nil && s.Role != bindsource.Injected }) {
		return out // no mount has its owner mapped to one user
	}
	for _, c := range g.ownerClaims(p.Bundle.Spec.Annotations, p.labels) {
		text, err := c.text, c.err
		if err == nil && text == policy.OwnerProcess {
			return out
		}
		if err == nil && text == "" {
			continue
		}
		var user *plan.User
		if err == nil {
			user, err = findUser(p.Root, text)
		}
		if err != nil {
			out.Ignored = append(out.Ignored, policy.Ignored{Name: c.by, Value: text, Why: err.Error()})
			continue
		}
		out.User, out.By = user, fmt.Sprintf("%s names %s", c.by, text)
		return out
	}
	return out
}

// An ownerClaim is the owner that one place names: "" for none.
type ownerClaim struct {
	by, text string
	err      error // it names an owner that cannot be used
}

// ownerClaims returns the places that may name the owner, in the order of precedence.
func (g Gatherer) ownerClaims(annotations, labels map[string]string) []ownerClaim {
	const name = policy.AnnotationPrefix + policy.OwnerAnnotation
	byPolicy := ownerClaim{by: "policy: binds.owner", text: g.Policy.Binds.Owner}
	if byPolicy.text == policy.OwnerProcess {
		byPolicy.text = ""
	}
	// Hardening itself reports an invalid annotation.
	annotation := ownerClaim{by: "annotations[" + name + "]", text: annotations[name]}
	if policy.CheckOwner(annotation.text) != nil {
		annotation.text = ""
	}
	label := ownerClaim{by: "label " + name, text: labels[name]}
	if label.text != "" {
		label.err = policy.CheckOwner(label.text)
	}
	// Some engines pass an image's labels on as annotations.
	user, err := remoteUser(cmp.Or(labels[metadataLabel], annotations[metadataLabel]))
	return []ownerClaim{annotation, label, byPolicy, {"label " + metadataLabel, user, err}}
}

// remoteUser returns the user that a devcontainer's metadata name: an object, or a list of which
// the last object with a user counts.
func remoteUser(metadata string) (string, error) {
	if metadata == "" {
		return "", nil
	}
	if len(metadata) > maxMetadata {
		return "", fmt.Errorf("more than %d bytes", maxMetadata)
	}
	type entry struct {
		RemoteUser    string `json:"remoteUser"`
		ContainerUser string `json:"containerUser"`
	}
	var list []entry
	data := []byte(strings.TrimSpace(metadata))
	if len(data) > 0 && data[0] == '{' {
		data = append(append([]byte{'['}, data...), ']')
	}
	if err := json.Unmarshal(data, &list); err != nil {
		return "", errors.New("not in the form that devcontainers write")
	}
	var remote, container string
	for _, e := range list {
		remote, container = cmp.Or(e.RemoteUser, remote), cmp.Or(e.ContainerUser, container)
	}
	switch user := cmp.Or(remote, container); user {
	case "":
		return "", nil
	case policy.OwnerProcess: // a user of that name
		return "", errors.New("the name stands for the first process's user")
	default:
		return user, policy.CheckOwner(user)
	}
}
