# bash completion for godwit
# Made by tools/completions/generate.py of the manual pages in tools/man: edit those.

# _godwit_table COMMAND WORD: sets `offered`, the options of the command (and of its job or subject WORD), and
# `kinds`, which maps those that take an argument to what that is.
_godwit_table() {
    offered='' kinds=()
    case $1 in
    audit)
        offered+=' --step= --shard= --bisect= --spike= --job= --workers= --json --help --usage'
        kinds[--step]='any'
        kinds[--shard]='any'
        kinds[--spike]='any'
        kinds[--job]='any'
        kinds[--workers]='any'
        kinds[--bisect]='dir'
        ;;
    bench)
        offered+=' --help --usage'
        if [ "$2" = allreduce ]; then
            offered+=' --bytes= -b --full -f --no-gloo -g --lanes= -l --gradients= -m --peers= -p --repeats= -r --transport= -t --rate= -w --no-mpi -x --python= -y'
            kinds[--bytes]='any'
            kinds[-b]='any'
            kinds[--lanes]='any'
            kinds[-l]='any'
            kinds[--gradients]='any'
            kinds[-m]='any'
            kinds[--peers]='any'
            kinds[-p]='any'
            kinds[--repeats]='any'
            kinds[-r]='any'
            kinds[--rate]='any'
            kinds[-w]='any'
            kinds[--transport]='words tcp shm rdma auto'
            kinds[-t]='words tcp shm rdma auto'
            kinds[--python]='file'
            kinds[-y]='file'
        fi
        if [ "$2" = steal ]; then
            offered+=' --count= -n --transport= -t'
            kinds[--count]='any'
            kinds[-n]='any'
            kinds[--transport]='words tcp shm rdma auto'
            kinds[-t]='words tcp shm rdma auto'
        fi
        if [ "$2" = write ]; then
            offered+=' --bytes= -b --transport= -t'
            kinds[--bytes]='any'
            kinds[-b]='any'
            kinds[--transport]='words tcp shm rdma auto'
            kinds[-t]='words tcp shm rdma auto'
        fi
        if [ "$2" = map ]; then
            offered+=' --jobs= -j --no-parallel -x --program= -p --tasks= -n'
            kinds[--jobs]='any'
            kinds[-j]='any'
            kinds[--tasks]='any'
            kinds[-n]='any'
            kinds[--program]='file'
            kinds[-p]='file'
        fi
        if [ "$2" = pack ]; then
            offered+=' --gradients= -m'
            kinds[--gradients]='any'
            kinds[-m]='any'
        fi
        if [ "$2" = checkpoint ]; then
            offered+=' --dir= -d --rounds= -r --state= -s'
            kinds[--dir]='dir'
            kinds[-d]='dir'
            kinds[--rounds]='any'
            kinds[-r]='any'
            kinds[--state]='any'
            kinds[-s]='any'
        fi
        if [ "$2" = digits ]; then
            offered+=' --batch= --data= --epochs= --epsilon= --hidden= --lr= --micro-batch= --momentum= --optimizer= --samples= --seed= --weight-decay='
            kinds[--batch]='any'
            kinds[--epochs]='any'
            kinds[--epsilon]='any'
            kinds[--hidden]='any'
            kinds[--lr]='any'
            kinds[--micro-batch]='any'
            kinds[--momentum]='any'
            kinds[--samples]='any'
            kinds[--seed]='any'
            kinds[--weight-decay]='any'
            kinds[--data]='dir'
            kinds[--optimizer]='words adamw sgd'
        fi
        if [ "$2" = gpu ]; then
            offered+=' --gpu= -g --json -j'
            kinds[--gpu]='any'
            kinds[-g]='any'
        fi
        if [ "$2" = gpt ]; then
            offered+=' --batch-tokens= --beta1= --beta2= --channels= --clip= --context= --data= --data-dtype= --decay-updates= --dropout= --epochs= --epsilon= --eval-every= --graphs= --heads= --init= --layers= --lr= --micro-batch= --min-lr= --model= --prompt= --recompute --sample-every= --sample-tokens= --schedule= --seed= --tokenizer= --updates= --val= --val-tokens= --vocab= --warmup= --weight-decay= --workers='
            kinds[--batch-tokens]='any'
            kinds[--beta1]='any'
            kinds[--beta2]='any'
            kinds[--channels]='any'
            kinds[--clip]='any'
            kinds[--context]='any'
            kinds[--decay-updates]='any'
            kinds[--dropout]='any'
            kinds[--epochs]='any'
            kinds[--epsilon]='any'
            kinds[--eval-every]='any'
            kinds[--heads]='any'
            kinds[--layers]='any'
            kinds[--lr]='any'
            kinds[--micro-batch]='any'
            kinds[--min-lr]='any'
            kinds[--prompt]='any'
            kinds[--sample-every]='any'
            kinds[--sample-tokens]='any'
            kinds[--seed]='any'
            kinds[--updates]='any'
            kinds[--val-tokens]='any'
            kinds[--vocab]='any'
            kinds[--warmup]='any'
            kinds[--weight-decay]='any'
            kinds[--workers]='any'
            kinds[--data]='file'
            kinds[--init]='file'
            kinds[--val]='file'
            kinds[--data-dtype]='words uint16 uint32 auto'
            kinds[--graphs]='words on off auto'
            kinds[--model]='words nano gpt2 gpt2-medium gpt2-large gpt2-xl'
            kinds[--schedule]='words cosine linear wsd constant'
            kinds[--tokenizer]='dir'
        fi
        ;;
    cancel)
        offered+=' --dir= -d --json --help --usage'
        kinds[--dir]='dir'
        kinds[-d]='dir'
        ;;
    check)
        offered+=' --python= -p --seed= -s --shards= --steps= --threads= --limit= --help --usage'
        kinds[--python]='file'
        kinds[-p]='file'
        kinds[--seed]='any'
        kinds[-s]='any'
        kinds[--shards]='any'
        kinds[--steps]='any'
        kinds[--threads]='any'
        kinds[--limit]='any'
        ;;
    devices)
        offered+=' --rdma-device= -d --gid-index= -g --gpus -G --json -j --help --usage'
        kinds[--rdma-device]='any'
        kinds[-d]='any'
        kinds[--gid-index]='any'
        kinds[-g]='any'
        ;;
    down)
        offered+=' --dir= -d --json --help --usage'
        kinds[--dir]='dir'
        kinds[-d]='dir'
        ;;
    drain)
        offered+=' --dir= -d --json --undo --help --usage'
        kinds[--dir]='dir'
        kinds[-d]='dir'
        ;;
    export)
        offered+=' --best --cluster= --dtype= --force --from= --job= --key= --step= --tensors= --to= --tokenizer= --help --usage'
        kinds[--cluster]='any'
        kinds[--from]='any'
        kinds[--job]='any'
        kinds[--step]='any'
        kinds[--tensors]='any'
        kinds[--dtype]='words f32 f16 bf16'
        kinds[--key]='file'
        kinds[--to]='file'
        kinds[--tokenizer]='dir'
        ;;
    force-view)
        offered+=' --dir= -d --help --usage'
        kinds[--dir]='dir'
        kinds[-d]='dir'
        ;;
    forget)
        offered+=' --before= --dir= -d --json --help --usage'
        kinds[--before]='any'
        kinds[--dir]='dir'
        kinds[-d]='dir'
        ;;
    generate)
        offered+=' --best --bytes --cluster= --from= --ignore-end --job= --key= --prompt= --seed= --step= --temperature= --tokenizer= --tokens= --top-k= --help --usage'
        kinds[--cluster]='any'
        kinds[--from]='any'
        kinds[--job]='any'
        kinds[--prompt]='any'
        kinds[--seed]='any'
        kinds[--step]='any'
        kinds[--temperature]='any'
        kinds[--tokens]='any'
        kinds[--top-k]='any'
        kinds[--key]='file'
        kinds[--tokenizer]='dir'
        ;;
    hold)
        offered+=' --dir= -d --json --help --usage'
        kinds[--dir]='dir'
        kinds[-d]='dir'
        ;;
    info)
        offered+=' --dir= -d --json --help --usage'
        kinds[--dir]='dir'
        kinds[-d]='dir'
        ;;
    inspect)
        offered+=' --best --cluster= --from= --job= --json -j --key= --step= --tensors --help --usage'
        kinds[--cluster]='any'
        kinds[--from]='any'
        kinds[--job]='any'
        kinds[--step]='any'
        kinds[--key]='file'
        ;;
    keygen)
        offered+=' --help --usage'
        ;;
    launch)
        offered+=' --chdir= --copy --detach --dry-run --hosts= --hosts-file= --key= --port= --program= --ssh= --help --usage'
        kinds[--chdir]='dir'
        kinds[--hosts]='any'
        kinds[--port]='any'
        kinds[--program]='any'
        kinds[--ssh]='any'
        kinds[--hosts-file]='file'
        kinds[--key]='file'
        ;;
    logs)
        offered+=' --dir= -d --follow -f --json --node= --lines= -n --stderr --help --usage'
        kinds[--dir]='dir'
        kinds[-d]='dir'
        kinds[--node]='any'
        kinds[--lines]='any'
        kinds[-n]='any'
        ;;
    map)
        offered+=' --arg-file= -a --bar --colsep= -C --delay= --delimiter= -d --detach --dry-run --env= --eta --fetch= --files= --flock= --grace= --halt= --here --jobs= -j --joblog= --json --keep-order -k --line-buffer --link --max-args= -n --max-replace-args= -N --memfree= --name= --nice= --nodes= --null -0 --priority= --quote -q --replace= -I --results= --resume --resume-failed --retries= --retry-failed --return= --shell= --tag --tagstring= --timeout= --tmpdir= --transfer --trc= --ungroup -u --verbose -t --workdir= --help --usage'
        kinds[--arg-file]='file'
        kinds[-a]='file'
        kinds[--joblog]='file'
        kinds[--shell]='file'
        kinds[--colsep]='any'
        kinds[-C]='any'
        kinds[--delay]='any'
        kinds[--delimiter]='any'
        kinds[-d]='any'
        kinds[--env]='any'
        kinds[--fetch]='any'
        kinds[--files]='any'
        kinds[--grace]='any'
        kinds[--halt]='any'
        kinds[--jobs]='any'
        kinds[-j]='any'
        kinds[--max-args]='any'
        kinds[-n]='any'
        kinds[--max-replace-args]='any'
        kinds[-N]='any'
        kinds[--memfree]='any'
        kinds[--name]='any'
        kinds[--nice]='any'
        kinds[--nodes]='any'
        kinds[--priority]='any'
        kinds[--replace]='any'
        kinds[-I]='any'
        kinds[--retries]='any'
        kinds[--return]='any'
        kinds[--tagstring]='any'
        kinds[--timeout]='any'
        kinds[--trc]='any'
        kinds[--flock]='dir'
        kinds[--results]='dir'
        kinds[--tmpdir]='dir'
        kinds[--workdir]='dir'
        ;;
    new-job)
        offered+=' --help --usage'
        ;;
    nodes)
        offered+=' --all --dir= -d --json --help --usage'
        kinds[--dir]='dir'
        kinds[-d]='dir'
        ;;
    plot)
        offered+=' --from= --log --output= -o --to= --x= --y= --help --usage'
        kinds[--from]='any'
        kinds[--to]='any'
        kinds[--x]='any'
        kinds[--y]='any'
        kinds[--output]='file'
        kinds[-o]='file'
        ;;
    priority)
        offered+=' --dir= -d --json --help --usage'
        kinds[--dir]='dir'
        kinds[-d]='dir'
        ;;
    prune)
        offered+=' --job= --others --yes --help --usage'
        kinds[--job]='any'
        ;;
    queue)
        offered+=' --all --dir= -d --json --help --usage'
        kinds[--dir]='dir'
        kinds[-d]='dir'
        ;;
    release)
        offered+=' --dir= -d --json --help --usage'
        kinds[--dir]='dir'
        kinds[-d]='dir'
        ;;
    report)
        offered+=' --force --json -j --job= --metrics= --output= -o --help --usage'
        kinds[--job]='any'
        kinds[--metrics]='file'
        kinds[--output]='file'
        kinds[-o]='file'
        ;;
    results)
        offered+=' --dir= -d --json --no-checkpoint --node= --output= -o --help --usage'
        kinds[--dir]='dir'
        kinds[-d]='dir'
        kinds[--node]='any'
        kinds[--output]='any'
        kinds[-o]='any'
        ;;
    retry)
        offered+=' --dir= -d --failed --json --wait --help --usage'
        kinds[--dir]='dir'
        kinds[-d]='dir'
        ;;
    run)
        offered+=' --advertise= --cluster= --dir= --join= --join-timeout= --key= --listen= --name= --peers= --cpu-class= --deal= --device= --gid-index= --lanes= --on-bad= --precision= --quorum= --rdma-device= --reduce= --steps= --transport= --verify= --workers= --checkpoint-every= --continue= --forget-losses --fresh --keep= --keep-best= --patience= --replicas= --cpu-watts= --notify= --webhook= --alarm= --energy-factor= --http= --json --metrics= --quiet --tensorboard= --verbose --energy-root= --grace= --hang-timeout= --no-prefetch --probe-interval-ms= --resume-timeout= --save-timeout= --time-scale= --help --usage'
        kinds[--advertise]='any'
        kinds[--cluster]='any'
        kinds[--join]='any'
        kinds[--join-timeout]='any'
        kinds[--listen]='any'
        kinds[--name]='any'
        kinds[--peers]='any'
        kinds[--gid-index]='any'
        kinds[--rdma-device]='any'
        kinds[--steps]='any'
        kinds[--workers]='any'
        kinds[--keep]='any'
        kinds[--patience]='any'
        kinds[--replicas]='any'
        kinds[--cpu-watts]='any'
        kinds[--notify]='any'
        kinds[--webhook]='any'
        kinds[--alarm]='any'
        kinds[--energy-factor]='any'
        kinds[--grace]='any'
        kinds[--hang-timeout]='any'
        kinds[--probe-interval-ms]='any'
        kinds[--resume-timeout]='any'
        kinds[--save-timeout]='any'
        kinds[--time-scale]='any'
        kinds[--dir]='dir'
        kinds[--continue]='dir'
        kinds[--tensorboard]='dir'
        kinds[--energy-root]='dir'
        kinds[--key]='file'
        kinds[--metrics]='file'
        kinds[--cpu-class]='words haswell skylakex zen'
        kinds[--deal]='words speed energy'
        kinds[--device]='words auto cpu cuda'
        kinds[--lanes]='words auto'
        kinds[--on-bad]='words stop skip'
        kinds[--precision]='words fp32 tf32 bf16'
        kinds[--quorum]='words any majority'
        kinds[--reduce]='words exact fast'
        kinds[--transport]='words tcp shm rdma auto'
        kinds[--verify]='words off'
        kinds[--checkpoint-every]='words off'
        kinds[--keep-best]='words off'
        kinds[--http]='words off'
        if [ "$2" = digits ]; then
            offered+=' --batch= --data= --epochs= --epsilon= --hidden= --lr= --micro-batch= --momentum= --optimizer= --samples= --seed= --weight-decay='
            kinds[--batch]='any'
            kinds[--epochs]='any'
            kinds[--epsilon]='any'
            kinds[--hidden]='any'
            kinds[--lr]='any'
            kinds[--micro-batch]='any'
            kinds[--momentum]='any'
            kinds[--samples]='any'
            kinds[--seed]='any'
            kinds[--weight-decay]='any'
            kinds[--data]='dir'
            kinds[--optimizer]='words adamw sgd'
        fi
        if [ "$2" = gpt ]; then
            offered+=' --batch-tokens= --beta1= --beta2= --channels= --clip= --context= --data= --data-dtype= --decay-updates= --dropout= --epochs= --epsilon= --eval-every= --graphs= --heads= --init= --layers= --lr= --micro-batch= --min-lr= --model= --prompt= --recompute --sample-every= --sample-tokens= --schedule= --seed= --tokenizer= --updates= --val= --val-tokens= --vocab= --warmup= --weight-decay='
            kinds[--batch-tokens]='any'
            kinds[--beta1]='any'
            kinds[--beta2]='any'
            kinds[--channels]='any'
            kinds[--clip]='any'
            kinds[--context]='any'
            kinds[--decay-updates]='any'
            kinds[--dropout]='any'
            kinds[--epochs]='any'
            kinds[--epsilon]='any'
            kinds[--eval-every]='any'
            kinds[--heads]='any'
            kinds[--layers]='any'
            kinds[--lr]='any'
            kinds[--micro-batch]='any'
            kinds[--min-lr]='any'
            kinds[--prompt]='any'
            kinds[--sample-every]='any'
            kinds[--sample-tokens]='any'
            kinds[--seed]='any'
            kinds[--updates]='any'
            kinds[--val-tokens]='any'
            kinds[--vocab]='any'
            kinds[--warmup]='any'
            kinds[--weight-decay]='any'
            kinds[--data]='file'
            kinds[--init]='file'
            kinds[--val]='file'
            kinds[--data-dtype]='words uint16 uint32 auto'
            kinds[--graphs]='words on off auto'
            kinds[--model]='words nano gpt2 gpt2-medium gpt2-large gpt2-xl'
            kinds[--schedule]='words cosine linear wsd constant'
            kinds[--tokenizer]='dir'
        fi
        if [ "$2" = program ]; then
            offered+=' --args= --program= --python= --seed= --threads='
            kinds[--args]='any'
            kinds[--seed]='any'
            kinds[--threads]='any'
            kinds[--program]='file'
            kinds[--python]='file'
        fi
        if [ "$2" = synthetic ]; then
            offered+=' --bad-shard= --crash-shard= --payload-bytes= --payload-copies= --seed= --shard-ms= --shards= --skew= --spin --state-bytes= --sum-elements='
            kinds[--bad-shard]='any'
            kinds[--crash-shard]='any'
            kinds[--payload-bytes]='any'
            kinds[--payload-copies]='any'
            kinds[--seed]='any'
            kinds[--shard-ms]='any'
            kinds[--shards]='any'
            kinds[--skew]='any'
            kinds[--state-bytes]='any'
            kinds[--sum-elements]='any'
        fi
        ;;
    sim)
        offered+=' --quorum= --reduce= --seed= --seeds= --help --usage --bad-step= --blind-ms= --bound-ms= --break-ms= --change-ms= --checkpoint-every= --checkpoint-time= --clog-ms= --core= --corrupt= --crash-ms= --crawl-ms= --damage-ms= --data-ms= --delay-us= --device-ms= --drift= --drop= --duplicate= --end-step= --evaluate-every= --fail= --fast= --fault-ms= --first= --flap= --flip-ms= --force= --tight= --full-ms= --garble= --hang-ms= --haul= --jump-ms= --keep= --leave-ms= --lose= --majority= --names= --older= --part= --partition-ms= --path-ms= --patience= --pause-ms= --poison-step= --power-ms= --record-ms= --refuse= --replicas= --restart-ms= --resume-ms= --shard-us= --shards= --skip= --slow= --slow-disk-ms= --spoil= --stay= --steps= --stop-ms= --tail= --torn= --unanswered= --unsynced= --verify= --wipe= --worker-loss= --wrong= --forks= --founders= --frugal= --gossip= --jobs= --figures --flock --keep-going --members= --minutes= --peers= --processor-time= --repairs --shrink --spare= --submissions= --trace --without='
        kinds[--quorum]='words any majority'
        kinds[--reduce]='words exact fast'
        kinds[--seed]='any'
        kinds[--seeds]='any'
        kinds[--bad-step]='any'
        kinds[--blind-ms]='any'
        kinds[--bound-ms]='any'
        kinds[--break-ms]='any'
        kinds[--change-ms]='any'
        kinds[--checkpoint-every]='any'
        kinds[--checkpoint-time]='any'
        kinds[--clog-ms]='any'
        kinds[--core]='any'
        kinds[--corrupt]='any'
        kinds[--crash-ms]='any'
        kinds[--crawl-ms]='any'
        kinds[--damage-ms]='any'
        kinds[--data-ms]='any'
        kinds[--delay-us]='any'
        kinds[--device-ms]='any'
        kinds[--drift]='any'
        kinds[--drop]='any'
        kinds[--duplicate]='any'
        kinds[--end-step]='any'
        kinds[--evaluate-every]='any'
        kinds[--fail]='any'
        kinds[--fault-ms]='any'
        kinds[--first]='any'
        kinds[--flap]='any'
        kinds[--flip-ms]='any'
        kinds[--tight]='any'
        kinds[--full-ms]='any'
        kinds[--garble]='any'
        kinds[--hang-ms]='any'
        kinds[--haul]='any'
        kinds[--jump-ms]='any'
        kinds[--keep]='any'
        kinds[--leave-ms]='any'
        kinds[--lose]='any'
        kinds[--names]='any'
        kinds[--older]='any'
        kinds[--part]='any'
        kinds[--partition-ms]='any'
        kinds[--path-ms]='any'
        kinds[--patience]='any'
        kinds[--pause-ms]='any'
        kinds[--poison-step]='any'
        kinds[--power-ms]='any'
        kinds[--record-ms]='any'
        kinds[--refuse]='any'
        kinds[--replicas]='any'
        kinds[--restart-ms]='any'
        kinds[--resume-ms]='any'
        kinds[--shard-us]='any'
        kinds[--shards]='any'
        kinds[--slow]='any'
        kinds[--slow-disk-ms]='any'
        kinds[--spoil]='any'
        kinds[--stay]='any'
        kinds[--steps]='any'
        kinds[--stop-ms]='any'
        kinds[--tail]='any'
        kinds[--torn]='any'
        kinds[--unanswered]='any'
        kinds[--unsynced]='any'
        kinds[--verify]='any'
        kinds[--wipe]='any'
        kinds[--worker-loss]='any'
        kinds[--wrong]='any'
        kinds[--forks]='any'
        kinds[--founders]='any'
        kinds[--frugal]='any'
        kinds[--gossip]='any'
        kinds[--jobs]='any'
        kinds[--members]='any'
        kinds[--minutes]='any'
        kinds[--peers]='any'
        kinds[--processor-time]='any'
        kinds[--spare]='any'
        kinds[--submissions]='any'
        kinds[--fast]='words 0 1'
        kinds[--force]='words 0 1'
        kinds[--majority]='words 0 1'
        kinds[--skip]='words 0 1'
        kinds[--without]='words promises listed installed lowest leader lives once durable given-up'
        ;;
    status)
        offered+=' --dir= -d --json -j --help --usage'
        kinds[--dir]='dir'
        kinds[-d]='dir'
        ;;
    stop)
        offered+=' --dir= -d --no-wait --help --usage'
        kinds[--dir]='dir'
        kinds[-d]='dir'
        ;;
    submit)
        offered+=' --after= --cores= --dir= -d --env= --env-file= --files= --gpus= --hold --json --memory= --name= --nodes= --priority= --retries= --rigid --shares= --sweep= --wait --help --usage'
        kinds[--after]='any'
        kinds[--cores]='any'
        kinds[--env]='any'
        kinds[--env-file]='any'
        kinds[--files]='any'
        kinds[--gpus]='any'
        kinds[--memory]='any'
        kinds[--name]='any'
        kinds[--nodes]='any'
        kinds[--priority]='any'
        kinds[--retries]='any'
        kinds[--shares]='any'
        kinds[--sweep]='any'
        kinds[--dir]='dir'
        kinds[-d]='dir'
        ;;
    tokenize)
        offered+=' --shard-tokens= --to= --tokenizer= --help --usage'
        kinds[--shard-tokens]='any'
        kinds[--to]='file'
        kinds[--tokenizer]='dir'
        ;;
    top)
        offered+=' --dir= -d --every= -n --once --help --usage'
        kinds[--dir]='dir'
        kinds[-d]='dir'
        kinds[--every]='any'
        kinds[-n]='any'
        ;;
    trace)
        offered+=' --cluster= --dir= -d --force --from= --key= --output= -o --seconds= -s --summary --help --usage'
        kinds[--cluster]='any'
        kinds[--from]='any'
        kinds[--seconds]='any'
        kinds[-s]='any'
        kinds[--dir]='dir'
        kinds[-d]='dir'
        kinds[--key]='file'
        kinds[--output]='file'
        kinds[-o]='file'
        ;;
    up)
        offered+=' --advertise= --as-root --child-ports= --cores= --drained --dir= -d --flock= --gate= --gpus= --grace= --http= --join= --key= --listen= --memory= --name= --takeover= --help --usage'
        kinds[--advertise]='any'
        kinds[--child-ports]='any'
        kinds[--cores]='any'
        kinds[--flock]='any'
        kinds[--gate]='any'
        kinds[--gpus]='any'
        kinds[--grace]='any'
        kinds[--http]='any'
        kinds[--join]='any'
        kinds[--listen]='any'
        kinds[--memory]='any'
        kinds[--name]='any'
        kinds[--takeover]='any'
        kinds[--dir]='dir'
        kinds[-d]='dir'
        kinds[--key]='file'
        ;;
    wait)
        offered+=' --dir= -d --json --help --usage'
        kinds[--dir]='dir'
        kinds[-d]='dir'
        ;;
    why)
        offered+=' --dir= -d --job= --json -j --since= --help --usage'
        kinds[--dir]='dir'
        kinds[-d]='dir'
        kinds[--job]='any'
        kinds[--since]='any'
        ;;
    esac
}

_godwit() {
    local current=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} command=${COMP_WORDS[1]}
    local word='' kind offered
    local -A kinds
    COMPREPLY=()
    if [ "$COMP_CWORD" -eq 1 ]; then
        mapfile -t COMPREPLY < <(compgen -W 'audit bench cancel check devices down drain export force-view forget generate hold info inspect keygen launch logs map new-job nodes plot priority prune queue release report results retry run sim status stop submit tokenize top trace up wait why help --help --version' -- "$current")
        return
    fi
    if [ "$command" = help ]; then
        mapfile -t COMPREPLY < <(compgen -W 'audit bench cancel check devices down drain export force-view forget generate hold info inspect keygen launch logs map new-job nodes plot priority prune queue release report results retry run sim status stop submit tokenize top trace up wait why' -- "$current")
        return
    fi
    [ "$COMP_CWORD" -gt 2 ] && word=${COMP_WORDS[2]}
    _godwit_table "$command" "$word"
    # readline splits --option=value at the '='
    if [ "$current" = = ]; then
        current=''
    elif [ "$before" = = ]; then
        before=${COMP_WORDS[COMP_CWORD - 2]}
    fi
    kind=${kinds[$before]-}
    if [ -z "$kind" ]; then
        if [[ $current == -* ]]; then
            mapfile -t COMPREPLY < <(compgen -W "$offered" -- "$current")
            [[ ${COMPREPLY[0]-} == *= ]] && compopt -o nospace 2>/dev/null
            return
        fi
        case $command,$COMP_CWORD in
        run,2) kind='job digits gpt program synthetic' ;;
        bench,2) kind='words allreduce steal write aead trace map accumulate pack checkpoint digits gpu gpt' ;;
        map,*) kind='file' ;;
        check,*) kind='file' ;;
        keygen,*) kind='file' ;;
        inspect,*) kind='file' ;;
        audit,*) kind='dir' ;;
        prune,*) kind='dir' ;;
        tokenize,*) kind='file' ;;
        export,*) kind='dir' ;;
        generate,*) kind='dir' ;;
        plot,*) kind='file' ;;
        trace,*) kind='file' ;;
        why,*) kind='dir' ;;
        report,*) kind='dir' ;;
        esac
    fi
    case $kind in
    file) mapfile -t COMPREPLY < <(compgen -f -- "$current") && compopt -o filenames 2>/dev/null ;;
    dir) mapfile -t COMPREPLY < <(compgen -d -- "$current") && compopt -o filenames 2>/dev/null ;;
    job*)
        mapfile -t COMPREPLY < <(compgen -W "${kind#job }" -- "$current"
            compgen -d -- "$current"
            compgen -f -X '!*.so' -- "$current")
        compopt -o filenames 2>/dev/null
        ;;
    words*) mapfile -t COMPREPLY < <(compgen -W "${kind#words }" -- "$current") ;;
    esac
    return 0
}
complete -F _godwit godwit
