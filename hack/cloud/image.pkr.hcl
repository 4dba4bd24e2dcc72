// An image of a Debian 13 host whose Docker runs every container as a jail: Debian's own cloud image, booted once with
// user-data.yaml. Nobody logs in: the machine switches itself off when the verdict is "ok", and the build fails where it does not.
//
//   packer init hack/cloud/image.pkr.hcl
//   packer build -var deb_url=URL -var deb_sha256=SUM hack/cloud/image.pkr.hcl
packer {
  required_plugins {
    qemu = {
      source  = "github.com/hashicorp/qemu"
      version = "~> 1"
    }
  }
}

variable "deb_url" {
  type = string
}

variable "deb_sha256" {
  type = string
}

variable "image_url" {
  type    = string
  default = "https://cloud.debian.org/images/cloud/trixie/latest/debian-13-genericcloud-amd64.qcow2"
}

variable "image_checksum" {
  type    = string
  default = "file:https://cloud.debian.org/images/cloud/trixie/latest/SHA512SUMS"
}

locals {
  user_data = replace(replace(file("${path.root}/user-data.yaml"), "DEB_URL", var.deb_url), "DEB_SHA256", var.deb_sha256)
  // A machine made from the image has an identity of its own.
  power_off = <<-END
    power_state:
      mode: poweroff
      condition: [sh, -c, "grep -q '^agentjail-host: ok' /var/log/agentjail-host.verdict && : >/etc/machine-id"]
  END
}

source "qemu" "agentjail" {
  iso_url          = var.image_url
  iso_checksum     = var.image_checksum
  disk_image       = true
  disk_size        = "8G"
  format           = "qcow2"
  memory           = 2048
  headless         = true
  output_directory = "dist/image"
  vm_name          = "agentjail.qcow2"
  communicator     = "none"
  shutdown_timeout = "30m"
  cd_label         = "cidata"
  cd_content = {
    "meta-data" = "instance-id: agentjail-image\n"
    "user-data" = "${local.user_data}${local.power_off}"
  }
}

build {
  sources = ["source.qemu.agentjail"]
}
