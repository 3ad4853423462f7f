# Raw images to who holds which sample. Rules downstream take images by ancient(): content hashes, not times, guard the data.
# The plan that FEDSHIFT_PLAN names says what a recipe is.


rule verify:
    output:
        "data/raw/{dataset}/{release}.verified.json",
    log:
        "logs/verify/{dataset}/{release}.log",
    wildcard_constraints:
        dataset="[^/]+",
        release="[^/]+",
    message:
        "rule verify: {wildcards.dataset} {wildcards.release}"
    shell:
        "exec python -m fedshift verify {wildcards.dataset} --release {wildcards.release} > {log} 2>&1"


rule prepare:
    input:
        lambda wildcards: ancient(
            "data/raw/{0.dataset}/{0.release}.verified.json".format(images_of(wildcards))
        ),
    output:
        directory("data/prepared/{recipe}"),  # whole or absent: published by one rename
    log:
        "logs/prepare/{recipe}.log",
    benchmark:
        "logs/prepare/{recipe}.tsv"
    wildcard_constraints:
        recipe="[^/]+/[^/]+",
    resources:
        **CLUSTER,
    message:
        "rule prepare: {wildcards.recipe}"
    shell:
        "exec python -m fedshift prepare {wildcards.recipe} > {log} 2>&1"


# For `dvc repro`, or to look at them beforehand. Jobs make the partitions that they lack: no pack waits for those of others.
rule partitions:
    input:
        ancient(sorted(IMAGES)),
    log:
        "logs/partitions.log",
    message:
        "rule partitions: of all requested runs"
    shell:
        "exec python -m fedshift partition > {log} 2>&1"
