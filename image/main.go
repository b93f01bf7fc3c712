// SPDX-License-Identifier: Apache-2.0

// Writes an image archive of one layer: the file tree that build.sh laid out, and how to start it.
package main

import (
	"flag"
	"fmt"
	"os"
	"runtime"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

func main() {
	layer := flag.String("layer", "", "file tree of the image, as a tar file")
	tag := flag.String("tag", "", "NAME:TAG of the image")
	version := flag.String("version", "", "version, for the image's labels")
	output := flag.String("output", "", "archive to write")
	flag.Parse()
	if err := write(*layer, *tag, *version, *output); err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

func write(layerPath, tagText, version, output string) error {
	tag, err := name.NewTag(tagText)
	if err != nil {
		return err
	}
	layer, err := tarball.LayerFromFile(layerPath)
	if err != nil {
		return err
	}
	image, err := mutate.AppendLayers(empty.Image, layer)
	if err != nil {
		return err
	}
	file, err := image.ConfigFile()
	if err != nil {
		return err
	}
	file = file.DeepCopy()
	file.OS, file.Architecture = "linux", runtime.GOARCH
	file.Config = v1.Config{
		Entrypoint: []string{"/usr/bin/tutti"},
		User:       "65532:65532",
		WorkingDir: "/",
		Labels: map[string]string{
			"org.opencontainers.image.title":    "tutti",
			"org.opencontainers.image.version":  version,
			"org.opencontainers.image.licenses": "Apache-2.0",
		},
	}
	if image, err = mutate.ConfigFile(image, file); err != nil {
		return err
	}
	return tarball.WriteToFile(output, tag, image)
}
