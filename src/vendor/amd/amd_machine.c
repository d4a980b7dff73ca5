/* amd_machine.c: checks of AMD's driver and of ROCm, and the GPUs that the driver shows. */
#include "vendor/machine.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/plural.h"
#include "vendor/amd/amd_cards.h"
#include "vendor/amd/rocm_sdk.h"

#define NOT_RUN "; not yet run on AMD hardware"

static bool exists(const char *path)
{
	char room[AMD_PATH_MAX];

	return access(amd_path(room, path), F_OK) == 0;
}

static bool is_there(void)
{
	struct amd_card card;

	return exists("/sys/module/amdgpu") || exists("/dev/kfd") || amd_cards_find(&card, 1) > 0 ||
	       machine_pci_gpus(vendors[VENDOR_amd]) > 0;
}

static void check_driver(struct check *c)
{
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;
	struct amd_card cards[AMD_CARDS_MAX];
	unsigned count = amd_cards_find(cards, AMD_CARDS_MAX);
	char room[AMD_PATH_MAX];

	if (!count) {
		check_found(c, CHECK_MISSING, "%s",
			    exists("/sys/module/amdgpu")
				    ? "the kernel driver amdgpu is loaded, but shows no GPU"
				    : "the kernel driver amdgpu is not loaded");
		check_advise(c, "load the driver (modprobe amdgpu), or install a newer one");
		return;
	}
	/* The kernel's own driver has no version. */
	if (amd_read(amd_path(room, "/sys/module/amdgpu"), "version", &text) == 0)
		check_found(c, CHECK_OK, "amdgpu %.64s, %u GPU%s (`pitot devices`)",
			    strbuf_text(&text), count, plural(count));
	else
		check_found(c, CHECK_OK, "the kernel's amdgpu, %u GPU%s (`pitot devices`)", count,
			    plural(count));
}

static void check_kfd(struct check *c)
{
	char room[AMD_PATH_MAX];

	if (!exists("/dev/kfd")) {
		check_found(c, CHECK_MISSING, "no /dev/kfd, through which programs compute");
		check_advise(c, "start a container with --device /dev/kfd --device /dev/dri");
	} else if (access(amd_path(room, "/dev/kfd"), R_OK | W_OK)) {
		check_found(c, CHECK_MISSING, "you may not open /dev/kfd");
		check_advise(c, "join its group: usermod -aG render USER");
	} else {
		check_found(c, CHECK_OK, "/dev/kfd can be opened");
	}
}

static void check_rocm(struct check *c)
{
	_cleanup_strbuf_ struct strbuf rocm = STRBUF_INIT;
	char room[AMD_PATH_MAX];
	struct rocm_sdk sdk = rocm_find_sdk();
	bool is_known = amd_read(amd_path(room, "/opt/rocm/.info"), "version", &rocm) == 0;

	if (!is_known && sdk.state == ROCM_NO_SDK && !exists("/opt/rocm")) {
		check_found(c, CHECK_LIMITED, "no /opt/rocm");
		return;
	}
	check_found(
		c, CHECK_OK, "ROCm %.64s%s%s", is_known ? strbuf_text(&rocm) : "of unknown version",
		sdk.version[0] ? ", ROCprofiler-SDK " : ", without ROCprofiler-SDK", sdk.version);
}

static void check_trace(struct check *c)
{
	struct rocm_sdk sdk = rocm_find_sdk();

	if (sdk.state == ROCM_SDK) {
		check_found(c, CHECK_LIMITED,
			    "kernels, copies, HIP's calls and ROCTx, by ROCprofiler-SDK %s" NOT_RUN,
			    sdk.version);
		return;
	}
	if (sdk.state == ROCM_BROKEN_SDK) {
		check_found(
			c, CHECK_MISSING,
			"ROCprofiler-SDK does not load (%s), and ROCm would abort programs that "
			"are to be recorded",
			sdk.error);
		check_advise(c, "install what the library needs (ldd), or ROCm again");
		return;
	}
	check_found(c, CHECK_MISSING,
		    "%s%s; `pitot monitor` reads utilization, memory, power, clocks and "
		    "temperatures" NOT_RUN,
		    sdk.state == ROCM_OLD_SDK ? "Pitot records by ROCprofiler-SDK 1.x, not "
					      : "no ROCprofiler-SDK",
		    sdk.version);
	check_advise(c, "install ROCm 7 or later, or name its folder in ROCM_PATH");
}

static const struct machine_check checks[] = {
	{ "driver", "readings of GPUs", false, check_driver },
	{ "/dev/kfd", "programs that use the GPU", false, check_kfd },
	{ "ROCm", "programs that use the GPU", false, check_rocm },
	{ "GPU work", "recording GPU work", true, check_trace },
};

static int gpus(struct gpus *out, struct error *e)
{
	struct amd_card cards[AMD_CARDS_MAX];
	unsigned count = amd_cards_find(cards, AMD_CARDS_MAX);

	for (unsigned i = 0; i < count; i++)
		if (vec_push(&out->list, cards[i].gpu) < 0)
			return error_set(e, -ENOMEM, "out of memory");
	return count ? 0 : error_set(e, E_UNSUPPORTED, "the driver shows no GPU");
}

static bool no_gpu_reason(char *out, size_t size)
{
	struct rocm_sdk sdk = rocm_find_sdk();

	if (sdk.state == ROCM_SDK)
		return false;
	if (sdk.state == ROCM_OLD_SDK)
		snprintf(out, size, "ROCprofiler-SDK %s has another interface than 1.x",
			 sdk.version);
	else if (sdk.state == ROCM_BROKEN_SDK)
		snprintf(out, size, "ROCprofiler-SDK does not load: %s", sdk.error);
	else
		snprintf(out, size, "no ROCprofiler-SDK: see `pitot doctor`");
	return true;
}

const struct vendor_machine vendor_machine_amd = {
	.checks = checks,
	.check_count = ARRAY_SIZE(checks),
	.is_there = is_there,
	.gpus = gpus,
	.no_gpu_reason = no_gpu_reason,
};
