// SPDX-License-Identifier: Apache-2.0

// A certificate authority per test cluster: server certificates for the components and the crash
// proxy, client certificates for users, and the key that signs ServiceAccount tokens.

package cluster

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// frontProxyName is the only name under which the API server passes requests on.
const frontProxyName = "front-proxy-client"

// Authority signs certificates for one cluster.
type Authority struct {
	CAPEM []byte

	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority() (*Authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber:          serial(),
		Subject:               pkix.Name{CommonName: "tutti-e2e-ca"},
		NotBefore:             time.Now().Add(-time.Hour),
		NotAfter:              time.Now().Add(7 * 24 * time.Hour),
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	return &Authority{CAPEM: encode("CERTIFICATE", der), cert: cert, key: key}, nil
}

// Server returns certificate and key (PEM) for 127.0.0.1 and localhost.
func (a *Authority) Server(name string) (certPEM, keyPEM []byte, err error) {
	return a.sign(&x509.Certificate{
		Subject:     pkix.Name{CommonName: name},
		DNSNames:    []string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	})
}

// Client returns certificate and key (PEM) that authenticate as user with groups.
func (a *Authority) Client(user string, groups ...string) (certPEM, keyPEM []byte, err error) {
	return a.sign(&x509.Certificate{
		Subject:     pkix.Name{CommonName: user, Organization: groups},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
}

// ServerTLS is Server as a value for net/http.
func (a *Authority) ServerTLS(name string) (tls.Certificate, error) {
	cert, key, err := a.Server(name)
	if err != nil {
		return tls.Certificate{}, err
	}
	return tls.X509KeyPair(cert, key)
}

// Pool holds the authority's certificate alone.
func (a *Authority) Pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	return pool
}

func (a *Authority) sign(template *x509.Certificate) (certPEM, keyPEM []byte, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	template.SerialNumber = serial()
	template.NotBefore = time.Now().Add(-time.Hour)
	template.NotAfter = time.Now().Add(6 * 24 * time.Hour)
	template.KeyUsage = x509.KeyUsageDigitalSignature
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		return nil, nil, err
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, nil, err
	}
	return encode("CERTIFICATE", der), encode("PRIVATE KEY", keyDER), nil
}

// write puts ca.crt, server.crt, server.key and sa.key into dir, and what the API server's aggregation
// layer needs, with a CA of its own: front-proxy-ca.crt, front-proxy.crt, front-proxy.key.
func (a *Authority) write(dir string) error {
	cert, key, err := a.Server("tutti-e2e")
	if err != nil {
		return err
	}
	tokenKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	tokenDER, err := x509.MarshalECPrivateKey(tokenKey)
	if err != nil {
		return err
	}
	frontProxy, err := newAuthority()
	if err != nil {
		return err
	}
	proxyCert, proxyKey, err := frontProxy.Client(frontProxyName)
	if err != nil {
		return err
	}
	for name, content := range map[string][]byte{
		"front-proxy-ca.crt": frontProxy.CAPEM, "front-proxy.crt": proxyCert, "front-proxy.key": proxyKey,
		"ca.crt": a.CAPEM, "server.crt": cert, "server.key": key, "sa.key": encode("EC PRIVATE KEY", tokenDER),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			return err
		}
	}
	return nil
}

func serial() *big.Int {
	n, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		panic(err) // the system's random source is gone
	}
	return n
}

func encode(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}
