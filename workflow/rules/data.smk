# Raw images to who holds which sample. Rules downstream take all of it by ancient(): content hashes, not times, guard the data.


def images_of(wildcards):
    return IMAGES[f"data/prepared/{wildcards.recipe}"]


def run_of(wildcards):
    """A run that trains on this partition."""
    return PARTITIONED[f"data/partitions/{wildcards.recipe}.parquet"]


def partition_options(wildcards):
    spec = json.loads(run_of(wildcards).spec)
    data, split = spec["data"], spec["partition"]
    options = ["--release", data["release"], "--px", data["prepare"]["px"], "--seed", spec["seed"]]
    options += ["--scheme", split["scheme"], "--fractions", ",".join(map(str, split["fractions"]))]
    options += [word for key, value in split["params"].items() for word in ("--param", f"{key}={value}")]
    options += ["--target", data["target"]] if data["target"] is not None else []
    return shlex.join(map(str, [data["dataset"], *options]))


rule verify:
    output:
        "data/raw/{dataset}/{release}.verified.json",
    log:
        "logs/verify/{dataset}/{release}.log",
    wildcard_constraints:
        dataset="[^/]+",
        release="[^/]+",
    shell:
        "{FEDSHIFT} verify {wildcards.dataset} --release {wildcards.release} > {log} 2>&1"


rule prepare:
    input:
        lambda wildcards: ancient(
            "data/raw/{0.dataset}/{0.release}.verified.json".format(images_of(wildcards))
        ),
    output:
        directory("data/prepared/{recipe}"),  # whole or absent: published by one rename
    log:
        "logs/prepare/{recipe}.log",
    wildcard_constraints:
        recipe="[^/]+/[^/]+",
    resources:
        **CLUSTER,
    params:
        dataset=lambda wildcards: images_of(wildcards).dataset,
        release=lambda wildcards: images_of(wildcards).release,
        px=lambda wildcards: images_of(wildcards).px,
    shell:
        "{FEDSHIFT} prepare {params.dataset} --release {params.release} --px {params.px} > {log} 2>&1"


rule partition:
    input:
        lambda wildcards: ancient(run_of(wildcards).prepared),
    output:
        "data/partitions/{recipe}.parquet",
    log:
        "logs/partition/{recipe}.log",
    wildcard_constraints:
        recipe="[^/]+/[^/]+",
    params:
        options=partition_options,
    shell:
        "{FEDSHIFT} partition {params.options} > {log} 2>&1"
