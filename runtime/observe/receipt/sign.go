package receipt

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/kernel/atomicfile"
	"agentjail.dev/runtime/kernel/trusted"
)

// keyFile and PublicFile are the host's key for receipts and its public half, in the directory of
// the policy: PEM, PKCS #8 and PKIX.
const (
	keyFile    = "receipt.key"
	PublicFile = "receipt.pub"
)

// maxKey bounds a key's file, in bytes.
const maxKey = 4 << 10

// Key is the host's key in a directory that only root can have written, made the first time, with
// its public half beside it.
func Key(dir string) (ed25519.PrivateKey, error) {
	path := filepath.Join(dir, keyFile)
	if _, err := os.Lstat(path); errors.Is(err, os.ErrNotExist) {
		if err := makeKey(path); err != nil {
			return nil, fmt.Errorf("the host's key for receipts: %w", err)
		}
	}
	f, err := trusted.Open(path)
	if err != nil {
		return nil, fmt.Errorf("the host's key for receipts: %w", err)
	}
	defer f.Close()
	if fi, err := f.Stat(); err != nil || fi.Mode().Perm()&0o077 != 0 {
		return nil, fmt.Errorf("%s: others can read it (remedy: remove it, and a new one is made)", path)
	}
	data, err := atomicfile.ReadAll(f, maxKey)
	if err != nil {
		return nil, err
	}
	key, err := decodeKey[ed25519.PrivateKey](path, data, x509.ParsePKCS8PrivateKey)
	if err != nil {
		return nil, err
	}
	return key, writePublic(filepath.Join(dir, PublicFile), key)
}

// decodeKey reads the first key of a PEM file's content.
func decodeKey[K any](path string, data []byte, parse func(der []byte) (any, error)) (key K, err error) {
	block, _ := pem.Decode(data)
	if block == nil {
		return key, fmt.Errorf("%s: no key", path)
	}
	parsed, err := parse(block.Bytes)
	if err != nil {
		return key, fmt.Errorf("%s: %w", path, err)
	}
	key, ok := parsed.(K)
	if !ok {
		return key, fmt.Errorf("%s: no ed25519 key", path)
	}
	return key, nil
}

// makeKey makes a key. Of two at once, one is the host's.
func makeKey(path string) error {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return err
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	made := filepath.Join(filepath.Dir(path), atomicfile.Unique(".receipt-"))
	if err := atomicfile.WriteNew(made, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), 0o600); err != nil {
		return err
	}
	defer os.Remove(made)
	if err := unix.Link(made, path); err != nil && !errors.Is(err, unix.EEXIST) {
		return &os.PathError{Op: "link", Path: path, Err: err}
	}
	return nil
}

func writePublic(path string, key ed25519.PrivateKey) error {
	der, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return err
	}
	text := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
	if old, err := atomicfile.Read(path, maxKey); err == nil && string(old) == string(text) {
		return nil
	}
	return atomicfile.Write(path, text, 0o644)
}

// Public reads a public key's file.
func Public(path string) (ed25519.PublicKey, error) {
	data, err := atomicfile.Read(path, maxKey)
	if err != nil {
		return nil, err
	}
	return decodeKey[ed25519.PublicKey](path, data, x509.ParsePKIXPublicKey)
}

// fingerprint names a key in a line.
func fingerprint(key ed25519.PublicKey) string {
	sum := sha256.Sum256(key)
	return "ed25519 SHA256:" + base64.RawStdEncoding.EncodeToString(sum[:])
}
