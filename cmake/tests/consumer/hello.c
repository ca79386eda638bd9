/* The smallest program: which library runs, and which devices it finds. */
#include <inttypes.h>
#include <stdio.h>

#include <fblayout.h>

int main(void)
{
    if (FBL_CHECK_VERSION() != FBL_OK) {
        char why[256];
        size_t length = 0;
        fbl_error_message(NULL, why, sizeof why, &length);
        fprintf(stderr, "fblayout: %s\n", why);
        return 1;
    }
    uint32_t devices = 0;
    fbl_status status = fbl_device_count(&devices);
    if (status != FBL_OK) {
        fprintf(stderr, "fblayout: %s\n", fbl_status_name(status));
        return 1;
    }
    printf("fblayout %s, %" PRIu32 " devices\n", fbl_version(), devices);
    for (uint32_t i = 0; i < devices; i++) {
        fbl_device_info info;
        FBL_INIT(info);
        if (fbl_device_get(i, &info) == FBL_OK)
            printf("%" PRIu32 ": %s\n", i, info.name);
    }
    return 0;
}
