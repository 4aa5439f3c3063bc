/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Opens a domain of tcp, as an MPI does, and prints a line; with an argument it lives that many seconds longer. */
#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    struct fi_info *hints = fi_allocinfo(), *info = NULL;
    struct fid_fabric *fabric = NULL;
    struct fid_domain *domain = NULL;
    int ret;

    if (!hints)
        return 1;
    hints->ep_attr->type = FI_EP_RDM;
    hints->fabric_attr->prov_name = strdup("tcp");
    ret = fi_getinfo(FI_VERSION(1, 20), NULL, NULL, 0, hints, &info);
    if (!ret)
        ret = fi_fabric(info->fabric_attr, &fabric, NULL);
    if (!ret)
        ret = fi_domain(fabric, info, &domain, NULL);
    printf("a domain: %d\n", ret);
    sleep(argc > 1 ? atoi(argv[1]) : 0);
    if (domain)
        fi_close(&domain->fid);
    if (fabric)
        fi_close(&fabric->fid);
    fi_freeinfo(info);
    fi_freeinfo(hints);
    return ret != 0;
}
