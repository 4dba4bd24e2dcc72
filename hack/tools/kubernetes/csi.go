package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
)

// driverName is what a CSIDriver object and volumes call the driver.
const driverName = "test.csi.agentjail.dev"

// volumeSize bounds what a volume holds.
const volumeSize = "16m"

// A csiDriver is a node's part of a driver of the Container Storage Interface, with the three ways
// that drivers have to attach a volume to a pod:
//
//   - a persistent volume is a file system that is staged on the node, once, and bound to each pod
//     from there, as of drivers for block devices;
//   - an ephemeral one is a file system of the pod's alone, as of the secrets store;
//   - one with the attribute "directory" is that directory of the node, bound to the pod, as of
//     csi-driver-host-path.
//
// There is no controller: volumes are not created and not attached.
type csiDriver struct {
	csi.UnimplementedIdentityServer
	csi.UnimplementedNodeServer
	registration.UnimplementedRegistrationServer
	node   string
	socket string
}

// serveCSI serves the kubelet until the process is ended. Arguments: the node's name, and the
// kubelet's directory.
func serveCSI() error {
	if len(os.Args) != 3 {
		return errors.New("usage: csi-driver NODE KUBELET-DIRECTORY")
	}
	root := os.Args[2]
	d := &csiDriver{node: os.Args[1], socket: filepath.Join(root, "plugins", driverName, "csi.sock")}
	plugin, register := grpc.NewServer(), grpc.NewServer()
	csi.RegisterIdentityServer(plugin, d)
	csi.RegisterNodeServer(plugin, d)
	registration.RegisterRegistrationServer(register, d)
	failed := make(chan error, 2)
	// The kubelet calls the driver as soon as it finds the second socket.
	for _, s := range []struct {
		path   string
		server *grpc.Server
	}{{d.socket, plugin}, {filepath.Join(root, "plugins_registry", driverName+"-reg.sock"), register}} {
		if err := os.MkdirAll(filepath.Dir(s.path), 0o750); err != nil {
			return err
		}
		if err := os.Remove(s.path); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		l, err := net.Listen("unix", s.path)
		if err != nil {
			return err
		}
		go func() { failed <- s.server.Serve(l) }()
	}
	return <-failed
}

// GetInfo describes the driver to the kubelet's plugin watcher.
func (d *csiDriver) GetInfo(context.Context, *registration.InfoRequest) (*registration.PluginInfo, error) {
	return &registration.PluginInfo{Type: registration.CSIPlugin, Name: driverName, Endpoint: d.socket, SupportedVersions: []string{"1.0.0"}}, nil
}

// NotifyRegistrationStatus is what the watcher made of it.
func (d *csiDriver) NotifyRegistrationStatus(_ context.Context, s *registration.RegistrationStatus) (*registration.RegistrationStatusResponse, error) {
	if !s.PluginRegistered {
		fmt.Fprintln(os.Stderr, "csi-driver: not registered:", s.Error)
	}
	return &registration.RegistrationStatusResponse{}, nil
}

// GetPluginInfo names the driver.
func (d *csiDriver) GetPluginInfo(context.Context, *csi.GetPluginInfoRequest) (*csi.GetPluginInfoResponse, error) {
	return &csi.GetPluginInfoResponse{Name: driverName, VendorVersion: "1"}, nil
}

// Probe reports that the driver is ready.
func (d *csiDriver) Probe(context.Context, *csi.ProbeRequest) (*csi.ProbeResponse, error) {
	return &csi.ProbeResponse{}, nil
}

// NodeGetInfo names the node.
func (d *csiDriver) NodeGetInfo(context.Context, *csi.NodeGetInfoRequest) (*csi.NodeGetInfoResponse, error) {
	return &csi.NodeGetInfoResponse{NodeId: d.node}, nil
}

// NodeGetCapabilities reports that persistent volumes are staged.
func (d *csiDriver) NodeGetCapabilities(context.Context, *csi.NodeGetCapabilitiesRequest) (*csi.NodeGetCapabilitiesResponse, error) {
	stage := &csi.NodeServiceCapability_RPC{Type: csi.NodeServiceCapability_RPC_STAGE_UNSTAGE_VOLUME}
	return &csi.NodeGetCapabilitiesResponse{Capabilities: []*csi.NodeServiceCapability{{Type: &csi.NodeServiceCapability_Rpc{Rpc: stage}}}}, nil
}

// NodeStageVolume mounts a volume's file system on the node.
func (d *csiDriver) NodeStageVolume(_ context.Context, r *csi.NodeStageVolumeRequest) (*csi.NodeStageVolumeResponse, error) {
	if r.VolumeContext["directory"] != "" {
		return &csi.NodeStageVolumeResponse{}, nil
	}
	return &csi.NodeStageVolumeResponse{}, failure(mountVolume(r.StagingTargetPath))
}

// NodeUnstageVolume takes it away, with what is in it.
func (d *csiDriver) NodeUnstageVolume(_ context.Context, r *csi.NodeUnstageVolumeRequest) (*csi.NodeUnstageVolumeResponse, error) {
	return &csi.NodeUnstageVolumeResponse{}, failure(unmount(r.StagingTargetPath))
}

// NodePublishVolume mounts a volume in a pod's directory.
func (d *csiDriver) NodePublishVolume(_ context.Context, r *csi.NodePublishVolumeRequest) (*csi.NodePublishVolumeResponse, error) {
	from, directory := r.StagingTargetPath, r.VolumeContext["directory"]
	if directory != "" {
		from = directory
	}
	if mounted(r.TargetPath) {
		return &csi.NodePublishVolumeResponse{}, nil
	}
	if from == "" {
		return &csi.NodePublishVolumeResponse{}, failure(mountVolume(r.TargetPath))
	}
	if err := os.MkdirAll(r.TargetPath, 0o750); err != nil {
		return nil, failure(err)
	}
	if err := unix.Mount(from, r.TargetPath, "", unix.MS_BIND, ""); err != nil {
		return nil, failure(err)
	}
	if r.Readonly {
		return &csi.NodePublishVolumeResponse{}, failure(unix.Mount("", r.TargetPath, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, ""))
	}
	return &csi.NodePublishVolumeResponse{}, nil
}

// NodeUnpublishVolume takes it away.
func (d *csiDriver) NodeUnpublishVolume(_ context.Context, r *csi.NodeUnpublishVolumeRequest) (*csi.NodeUnpublishVolumeResponse, error) {
	if err := unmount(r.TargetPath); err != nil {
		return nil, failure(err)
	}
	if err := os.Remove(r.TargetPath); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, failure(err)
	}
	return &csi.NodeUnpublishVolumeResponse{}, nil
}

// mountVolume makes an empty file system. Calls may come twice.
func mountVolume(path string) error {
	if err := os.MkdirAll(path, 0o750); err != nil || mounted(path) {
		return err
	}
	return unix.Mount(driverName, path, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=0755,size="+volumeSize)
}

// mounted reports whether a file system begins at a directory.
func mounted(path string) bool {
	var own, above unix.Stat_t
	return unix.Lstat(path, &own) == nil && unix.Lstat(filepath.Dir(path), &above) == nil && own.Dev != above.Dev
}

// unmount takes away what is mounted, if anything is.
func unmount(path string) error {
	err := unix.Unmount(path, unix.UMOUNT_NOFOLLOW)
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOENT) { // not a mount point
		return nil
	}
	return err
}

// failure is an error in gRPC's form.
func failure(err error) error {
	if err == nil {
		return nil
	}
	return status.Error(codes.Internal, err.Error())
}
